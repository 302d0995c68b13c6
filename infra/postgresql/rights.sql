-- What lingxi_app may do in a database, and nothing else. As the owner of the schema, after the first `lingxi migrate`; running it
-- again does no harm, and is right after each later one.
--   psql -f rights.sql "$DATABASE_OWNER_URL"
begin;

-- Nobody but the owner connects, makes tables or temporary tables.
do $$
begin
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to lingxi_app', current_database());
end $$;
revoke all on schema public from public;
grant usage on schema public to lingxi_app;

-- Rows of all tables, these and those of later migrations. No TRUNCATE, REFERENCES, TRIGGER: there is no need.
revoke all on all tables in schema public from lingxi_app;
grant select, insert, update, delete on all tables in schema public to lingxi_app;
grant usage on all sequences in schema public to lingxi_app;
alter default privileges in schema public grant select, insert, update, delete on tables to lingxi_app;
alter default privileges in schema public grant usage on sequences to lingxi_app;

-- Functions run with the rights of who calls them; only who works here may call them.
revoke execute on all functions in schema public from public;
grant execute on all functions in schema public to lingxi_app;
alter default privileges revoke execute on functions from public;
alter default privileges in schema public grant execute on functions to lingxi_app;

-- The schema's version is read; what was written into the audit log stays as it is (old rows are pruned).
revoke insert, update, delete on alembic_version from lingxi_app;
revoke update on audit_log from lingxi_app;

commit;
