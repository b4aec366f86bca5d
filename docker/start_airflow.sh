#!/bin/sh
# Migrate Airflow's database and write the password of its user; run to its end before anything else starts.
set -eu
umask 077
python - <<'PYTHON'
import json, os, pathlib

passwords = {"admin": os.environ["CEP_ADMIN_PASSWORD"]}
pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).write_text(json.dumps(passwords))
PYTHON
airflow db migrate
# The tasks that work on Spark wait for its slots.
exec airflow pools set cep_spark 4 "Spark jobs at a time"
