#!/bin/sh
# Installs the real MCP clients that the extended tests drive: the Python SDK and
# the official inspector. A second run on the same folder takes seconds.
#
#   setup.sh FOLDER     PYTHON=python3.13 chooses another interpreter
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
inspector=2.12.0

[ -x "$1/bin/pip" ] || "$python" -m venv "$1" || {
	echo "no virtual environment could be made; on Debian install python3-venv" >&2
	exit 1
}
folder=$(cd "$1" && pwd)
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
PATH=$folder/bin:$PATH
export PATH
grep -qs "\"version\": \"$inspector\"" "$folder/inspector/node_modules/@modelcontextprotocol/inspector/package.json" ||
	npm install --silent --no-audit --no-fund --prefix "$folder/inspector" "@modelcontextprotocol/inspector@$inspector"
"$folder/bin/python" -c 'import mcp'
"$folder/inspector/node_modules/.bin/mcp-inspector" --cli --version
