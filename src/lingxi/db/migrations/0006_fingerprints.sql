-- Fingerprints of photos, for near-duplicates and bursts.
select 1;
