-- Once for a server, as its administrator: the two roles of Lingxi and the database.
--   psql -f roles.sql postgres
-- Then give both a password (psql's \password keeps it out of logs and history): \password lingxi_owner, \password lingxi_app
--
-- lingxi_owner owns the schema: it migrates, dumps and restores, and is used by nobody else.
-- lingxi_app is what API, dispatchers, workers and `lingxi` commands beside the database connect as: it reads and writes rows, and
-- can change no table. Its rights are in rights.sql.
do $$
begin
  if not exists (select from pg_roles where rolname = 'lingxi_owner') then
    -- inherits what a database's owner may do in it: make tables in the schema public
    create role lingxi_owner login nosuperuser nocreatedb nocreaterole inherit noreplication;
  end if;
  if not exists (select from pg_roles where rolname = 'lingxi_app') then
    create role lingxi_app login nosuperuser nocreatedb nocreaterole noinherit noreplication;
  end if;
end $$;

select 'create database lingxi owner lingxi_owner encoding ''UTF8'' template template0'
 where not exists (select from pg_database where datname = 'lingxi') \gexec
