-- Airflow's database and the warehouse's catalog, each with a role that may do nothing elsewhere. Run once by PostgreSQL's
-- image, when the volume is empty; by hand: psql -f roles.sql, with CEP_SECRETS naming the folder of the passwords.
\set airflow_password `cat "$CEP_SECRETS/airflow_password"`
\set catalog_password `cat "$CEP_SECRETS/catalog_password"`
\set reader_password `cat "$CEP_SECRETS/reader_password"`

CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
REVOKE ALL ON DATABASE airflow FROM PUBLIC;

-- The catalog's role makes its tables and leases in a database that it does not own. Airflow's pages have the reader's.
CREATE ROLE cep_catalog LOGIN PASSWORD :'catalog_password';
CREATE ROLE cep_reader LOGIN PASSWORD :'reader_password';
CREATE DATABASE cep_catalog;
REVOKE ALL ON DATABASE cep_catalog FROM PUBLIC;
GRANT CONNECT ON DATABASE cep_catalog TO cep_catalog, cep_reader;
\connect cep_catalog
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO cep_catalog;
GRANT USAGE ON SCHEMA public TO cep_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE cep_catalog IN SCHEMA public GRANT SELECT ON TABLES TO cep_reader;
