-- The warehouse's catalog and leases, beside Airflow's own database. Run once, when the volume is empty.
CREATE DATABASE cep_catalog;
