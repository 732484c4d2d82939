//! Reads the agent that a client certificate names.

use std::time::{Duration, SystemTime};

use headroom_domain::names;
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

use super::{AgentIdentity, StreamError};

/// The agent that a verified client certificate names.
pub(super) fn certified(chain: &[CertificateDer<'_>], now: SystemTime) -> Result<AgentIdentity, StreamError> {
    let parsed = chain.first().and_then(|leaf| parse_x509_certificate(leaf).ok());
    let (_, certificate) = parsed.ok_or(StreamError::NoCredential)?;
    let subject = certificate.subject();
    let mut organisations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let mut common_names = subject.iter_common_name().filter_map(|name| name.as_str().ok());
    let name = common_names.next().unwrap_or_default();
    let node = name
        .strip_prefix(names::AGENT_CERTIFICATE_PREFIX)
        .filter(|node| !node.is_empty());
    let is_agent = organisations.any(|name| name == names::AGENT_CERTIFICATE_ORGANISATION);
    let node = node.filter(|_| is_agent && common_names.next().is_none());
    let Some(node) = node else {
        return Err(StreamError::NotAnAgent {
            user: format!("{name:?}"),
        });
    };
    let end = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default();
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
    // The handshake checked it too, but a stream may be older than that.
    if expires <= now {
        return Err(StreamError::Expired);
    }
    Ok(AgentIdentity {
        node: node.to_owned(),
        pod_uid: None,
        expires: Some(expires),
    })
}
