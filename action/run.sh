#!/usr/bin/env bash
# The steps of the GitHub Action (../action.yml). The inputs of the action are in environment variables; what has to be
# decided, run or written is in beholder.integrations.github.
set -euo pipefail

environment=$BEHOLDER_HOME/environment
work=${BEHOLDER_FOLDER:-$BEHOLDER_HOME} # of this suite; there may be several in a job
cached=${BEHOLDER_CACHED:-} # the ledger of this suite as the cache has it, in the workspace

# By its path: on Windows that has a colon, at which PATH would be split.
find_python() {
    program=python
    for file in "$environment/bin/python" "$environment/Scripts/python.exe"; do
        [[ ! -x $file ]] || program=$file
    done
}

# `exec`, so that the signals by which a runner cancels a job reach Python.
step() { find_python && exec "$program" -X utf8 -P -m beholder.integrations.github "$1" "$work"; }

# Install what the ref in `uses:` has, or the released version that the workflow asks for.
install() {
    mkdir -p "$BEHOLDER_HOME"
    "$PYTHON" -m venv "$environment"
    local package="$GITHUB_ACTION_PATH${EXTRAS:+[$EXTRAS]}"
    [[ -z $VERSION ]] || package="beholder${EXTRAS:+[$EXTRAS]}==$VERSION"
    find_python
    "$program" -m pip install --quiet --disable-pip-version-check "$package"
}

# Move a file, if it is there.
move() { [[ ! -f $1 ]] || mv "$1" "$2"; }

case $1 in
    install) install ;;
    prepare) step prepare ;;
    # The ledger of the base branch, if the cache had one; that of this branch has the same path there.
    keep) move "$cached" "$work/baseline.db" ;;
    judge) move "$cached" "$work/beholder.db" && step judge ;;
    # Only after a process was killed is there still a log beside the ledger.
    close)
        [[ ! -f $work/beholder.db-wal ]] || (step close)
        move "$work/beholder.db" "$cached"
        ;;
    publish) rm -f "$cached" && step publish ;;
    *) echo "unknown step $1" >&2 && exit 2 ;;
esac
