#!/bin/sh
# The entry of every container of the image: writes Spark's settings, with the secret of the cluster, to a file of this
# user alone where Spark looks for them (SPARK_CONF_DIR), and becomes the command. Without a secret it writes nothing.
set -eu
if test -n "${CEP_SPARK_SECRET:-}"; then
    (
        umask 077
        mkdir -p "$SPARK_CONF_DIR"
        {
            cat "$(dirname "$0")/spark-defaults.conf"
            printf 'spark.authenticate.secret %s\n' "$CEP_SPARK_SECRET"
            # A driver in several networks listens in all of them, and is called by its name.
            if test -n "${CEP_SPARK_DRIVER_HOST:-}"; then
                printf 'spark.driver.host %s\nspark.driver.bindAddress 0.0.0.0\n' "$CEP_SPARK_DRIVER_HOST"
            fi
        } > "$SPARK_CONF_DIR/spark-defaults.conf"
    )
fi
unset CEP_SPARK_SECRET
exec "$@"
