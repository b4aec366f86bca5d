-- Airflow's database and the warehouse's catalog, each with a role that may do nothing elsewhere. Run once by PostgreSQL's
-- image, when the volume is empty; by hand: psql -f roles.sql, with both passwords in the environment.
\getenv airflow_password AIRFLOW_DATABASE_PASSWORD
\getenv catalog_password CATALOG_PASSWORD

CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
REVOKE ALL ON DATABASE airflow FROM PUBLIC;

-- The catalog's role makes its tables and leases in a database that it does not own.
CREATE ROLE cep_catalog LOGIN PASSWORD :'catalog_password';
CREATE DATABASE cep_catalog;
REVOKE ALL ON DATABASE cep_catalog FROM PUBLIC;
GRANT CONNECT ON DATABASE cep_catalog TO cep_catalog;
\connect cep_catalog
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO cep_catalog;
