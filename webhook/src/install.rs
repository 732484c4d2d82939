//! What is installed in the cluster: webhook configurations, policies and rights, generated from the declared endpoints.

pub mod manifest;
