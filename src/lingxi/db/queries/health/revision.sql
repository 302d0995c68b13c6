-- The revision that the database is at.
select version_num from alembic_version
