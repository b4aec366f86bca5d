#!/bin/sh
# Make the secrets of docker-compose.yaml, each a file in `secrets/` beside it; those that are there stay.
# The folder is its owner's alone. The files in it are read by the users of the containers, each of which is given its own.
set -eu
cd "$(dirname "$0")/.."
mkdir -p -m 0700 secrets
for name in postgres_password airflow_password catalog_password reader_password spark_secret admin_password jwt_secret \
    session_secret; do
    test -s "secrets/$name" || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "secrets/$name"
done
test -s secrets/fernet_key || head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' > secrets/fernet_key
chmod 0444 secrets/*
