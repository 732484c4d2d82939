//! Objects to install in the cluster, generated from the declared endpoints: webhook configurations, policies, rights.

pub mod manifest;
