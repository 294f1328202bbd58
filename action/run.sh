#!/usr/bin/env bash
# The steps of the GitHub Action (../action.yml). The inputs of the action are in environment variables; what has to be
# decided or written is in beholder.integrations.github.
set -euo pipefail

environment=$BEHOLDER_HOME/environment
work=${BEHOLDER_FOLDER:-$BEHOLDER_HOME} # of this suite; there may be several in a job
if [[ -d $environment ]]; then
    [[ -d $environment/Scripts ]] && programs=Scripts || programs=bin
    export PATH="$environment/$programs:$PATH"
fi

step() { python -P -m beholder.integrations.github "$1" "$work" "${@:2}"; }

# Install what the ref in `uses:` has, or the released version that the workflow asks for.
install() {
    mkdir -p "$BEHOLDER_HOME"
    "$PYTHON" -m venv "$environment"
    [[ -d $environment/Scripts ]] && programs=Scripts || programs=bin
    local package="$GITHUB_ACTION_PATH${EXTRAS:+[$EXTRAS]}"
    [[ -z $VERSION ]] || package="beholder${EXTRAS:+[$EXTRAS]}==$VERSION"
    "$environment/$programs/python" -m pip install --quiet --disable-pip-version-check "$package"
}

# Put the ledger of the base branch aside, if the cache had one; the run goes on with a copy of it.
keep() { [[ ! -f $work/beholder.db ]] || cp "$work/beholder.db" "$work/baseline.db"; }

judge() {
    cd "$WORKING_DIRECTORY"
    local flags=(--json --ledger "${LEDGER:-$work/beholder.db}") words code=0 token="stop-$RANDOM$RANDOM$RANDOM"
    [[ -z $JUDGE ]] || flags+=(--judge "$JUDGE")
    [[ -z $BUDGET ]] || flags+=(--budget "$BUDGET")
    [[ -z $MAX_UNSCORED ]] || flags+=(--max-unscored "$MAX_UNSCORED")
    for minimum in $FAIL_UNDER; do flags+=(--fail-under "$minimum"); done
    # `xargs` knows quotes, and executes nothing that is between them.
    words=$(xargs printf '%s\n' <<< "$ARGS")
    while IFS= read -r word; do [[ -z $word ]] || flags+=("$word"); done <<< "$words"
    # What is printed in between may hold names from cases, and is no workflow command whatever it begins with.
    echo "::stop-commands::$token"
    beholder run "${flags[@]}" -- "$SUITE" 2> "$work/stderr.txt" | tee "$work/run.jsonl" || code=${PIPESTATUS[0]}
    cat "$work/stderr.txt"
    echo "::$token::"
    step collect "$code"
}

publish() {
    step publish "$REPORT_URL"
    if [[ $COMMENT != never && -n $PULL_REQUEST ]] && ! comment 2> "$work/comment.txt"; then
        echo "::notice title=Beholder::The comment could not be written: the token of this job may not. A fork's never" \
            "may; else the job needs \`permissions: pull-requests: write\`. The job summary has the same text."
    fi
}

# Update our comment on the pull request, or write the first one. One by somebody else is never touched.
comment() {
    local marker ours url
    GH_HOST=${GITHUB_SERVER_URL#*://} && export GH_HOST
    marker=$(head -n 1 "$work/comment.md")
    ours="[.comments[] | select(.viewerDidAuthor and (.body | startswith(\"$marker\")))] | last | .url // \"\""
    url=$(gh pr view "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --json comments --jq "$ours") || return 1
    if [[ $url == *#issuecomment-* ]]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/${url##*#issuecomment-}" \
            --field "body=@$work/comment.md"
    else
        gh pr comment "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --body-file "$work/comment.md" > /dev/null
    fi
}

case $1 in
    install | keep | judge | publish) "$1" ;;
    prepare) step prepare ;;
    *) echo "unknown step $1" >&2 && exit 2 ;;
esac
