-- Live albums: what uploads, serving and collecting need beyond 0002.
select 1;
