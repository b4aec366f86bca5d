#!/bin/sh
# Start a part of Airflow that has to make something first:
#
#   docker/start_airflow.sh database                # migrate the database, make the pool; before anything else starts
#   docker/start_airflow.sh api-server ARGUMENTS    # write the password of the pages' user for this process alone
set -eu
if test "$1" = database; then
    airflow db migrate
    # The tasks that work on Spark wait for its slots.
    exec airflow pools set cep_spark 4 "Spark jobs at a time"
fi
(
    umask 077
    printf '{"admin": "%s"}' "$(cat "$CEP_SECRETS/admin_password")" > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
)
exec airflow "$@"
