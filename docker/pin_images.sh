#!/bin/sh
# Write newer images to .env: those that the tags of its images name now, with their digests, for all later builds:
#
#   docker/pin_images.sh                # fetches python:3.11-slim-bookworm and postgres:16-bookworm
#   git diff --no-index docker/example.env .env
#
# Needs docker and a registry. Run it again to take newer images of the same tags, and build.
set -eu
cd "$(dirname "$0")/.."
test -f .env || { echo "there is no .env: cp docker/example.env .env" >&2; exit 2; }
for name in PYTHON_IMAGE POSTGRES_IMAGE; do
    image=$(sed -n "s/^$name=//p" .env)
    image=${image:-$(sed -n "s/^$name=//p" docker/example.env)}
    tag=${image%%@*}
    docker pull --quiet "$tag" > /dev/null
    digest=$(docker image inspect --format '{{index .RepoDigests 0}}' "$tag")
    pinned="$tag@${digest##*@}"
    (umask 077 && grep -v "^$name=" .env > .env.part; echo "$name=$pinned" >> .env.part)
    cat .env.part > .env
    rm .env.part
    echo "$pinned"
done
