//! Certificates of the webhook from a Secret in the API server: every replica serves them, and the leader creates,
//! renews and rotates them and publishes their CAs. ADR 0006 has the reasons.

mod api_object;
mod authority_file;
mod keep_error;
mod keeper;
mod material;
mod publisher;
mod rotation;
mod state;

pub use self::{
    api_object::ReadError,
    authority_file::AuthorityFile,
    keeper::{ACCESS, Keeper, KeeperOptions, SecretWriter},
    material::{Progress, RotationState},
    publisher::{
        AUTHORITIES_ACCESS, AgentConfigMap, BundlePublisher, BundleTarget, OwnEntries, ReconciledFields,
        WebhookConfiguration,
    },
    rotation::Lifetimes,
    state::{Bundle, CertificateState, LastStep},
};
