#!/bin/sh
# The entry of every container of both images. What a container knows of secrets are files in $CEP_SECRETS. Two of them
# are needed in a form of their own, and are written so to files of this user alone: Spark's settings with the secret of
# the cluster where Spark looks for them (SPARK_CONF_DIR), and the password of the catalog where libpq does (PGPASSFILE).
# Then it becomes the command; `executor` is what Spark asks of a pod that it has made (Kubernetes).
set -eu
umask 077
if test -n "${SPARK_CONF_DIR:-}" && test -r "$CEP_SECRETS/spark_secret"; then
    mkdir -p "$SPARK_CONF_DIR"
    {
        cat "$(dirname "$0")/spark-defaults.conf"
        printf 'spark.authenticate.secret %s\n' "$(cat "$CEP_SECRETS/spark_secret")"
    } > "$SPARK_CONF_DIR/spark-defaults.conf"
fi
if test -n "${PGPASSFILE:-}"; then
    for role in catalog reader; do
        if test -r "$CEP_SECRETS/${role}_password"; then
            printf '*:*:*:cep_%s:%s\n' "$role" "$(cat "$CEP_SECRETS/${role}_password")"
        fi
    done > "$PGPASSFILE"
fi
umask 022
if test "${1:-}" = executor; then
    set -- java
    number=0
    while eval "option=\${SPARK_JAVA_OPT_$number:-}" && test -n "$option"; do
        set -- "$@" "$option"
        number=$((number + 1))
    done
    set -- "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$(find-spark-home)/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
fi
exec "$@"
