-- What `lingxi check` wants to know of this server and of our rights in it.
select current_setting('server_version')                            as version,
       current_setting('server_version_num')::int                   as version_number,
       clock_timestamp()                                            as now,
       pg_is_in_recovery()                                          as is_replica,
       current_user                                                 as role,
       current_database()                                           as database,
       current_setting('server_encoding')                           as encoding,
       current_setting('max_connections')::int                      as max_connections,
       coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
       coalesce((select array_agg(c.relname::text order by c.relname)
                   from pg_class c
                  where c.relnamespace = to_regnamespace(coalesce(current_schema(), 'public'))
                    and c.relkind = 'r'
                    and c.relname <> 'alembic_version'
                    and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
                             and (has_table_privilege(c.oid, 'update') or c.relname = 'audit_log') and has_table_privilege(c.oid, 'delete'))),
                array[]::text[])                                    as forbidden_tables
