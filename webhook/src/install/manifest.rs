//! Generates webhook configurations, policies and RBAC rules from the endpoint declarations, as typed objects and as YAML.

mod configurations;
pub mod custom_kinds;
pub mod difference;
pub mod policies;
mod rights;
pub mod steady_state;

use headroom_domain::installation::Installation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

pub use self::{
    configurations::{entry, mutating, validating},
    rights::{NamespaceRights, Rights, rights},
};

/// Client configuration of the webhook entries: address and CA bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub address: Address,
    /// PEM of the authorities that verify the webhook's certificate; `None` leaves the field to another writer.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Address of the webhook for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Behind the Service of the installation.
    Service,
    /// At a URL such as `https://127.0.0.1:9443`, without a slash at the end.
    Url(String),
}

impl Address {
    /// The name or IP address that the API server expects in the webhook's certificate; empty if the URL has none.
    pub fn host(&self, installation: &Installation) -> String {
        match self {
            Self::Service => installation.service_host(),
            Self::Url(base) => {
                let url = base.parse::<http::Uri>().unwrap_or_default();
                let host = url.host().unwrap_or_default();
                host.trim_start_matches('[').trim_end_matches(']').to_owned()
            }
        }
    }
}

/// An object as YAML, the fields in the order of its type.
///
/// # Errors
/// If the value holds something that YAML cannot.
pub fn yaml(object: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(object)
}

fn named(name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
