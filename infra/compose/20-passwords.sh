#!/bin/sh
# At the first start of PostgreSQL, after roles.sql: passwords for the two roles that it made.
set -eu
psql -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v app="$APP_PASSWORD" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
alter role lingxi_owner password :'owner';
alter role lingxi_app password :'app';
SQL
