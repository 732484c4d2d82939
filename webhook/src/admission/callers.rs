//! [`CallerCheck`]: recognizes API servers by their client certificates, and refuses other callers once that is known
//! to work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use headroom_kit::serve::Peer;
use tracing::info;
use x509_parser::parse_x509_certificate;

use crate::{
    admission::{error::AdmissionError, metrics},
    args::{CallerArgs, Callers},
    store::caller::ReviewCaller,
};

/// Recognizes API servers. Clones share what they have seen.
#[derive(Debug, Clone, Default)]
pub struct CallerCheck {
    callers: Callers,
    /// Common names of the certificates of API servers.
    names: Vec<String>,
    /// True once a review has arrived with such a certificate, here or at a replica that answered our probe. Until then no caller is refused: an API server that
    /// is not set up to present one would lose all its reviews.
    is_proven: Arc<AtomicBool>,
}

impl CallerCheck {
    /// The check that the flags describe.
    pub fn new(args: &CallerArgs) -> Self {
        let CallerArgs {
            callers,
            caller_names,
        } = args.clone();
        Self {
            callers,
            names: caller_names,
            is_proven: Arc::default(),
        }
    }

    /// True if callers without a certificate are refused.
    fn is_in_force(&self) -> bool {
        self.callers == Callers::ClientCertificate && self.is_proven.load(Ordering::Relaxed)
    }

    /// Answered callers, for debug queries: `any`, `unproven` while no API server has presented a certificate, or
    /// `verified`.
    pub fn state(&self) -> &'static str {
        match self.callers {
            Callers::Any => "any",
            Callers::ClientCertificate if self.is_in_force() => "verified",
            Callers::ClientCertificate => "unproven",
        }
    }

    /// Identifies the client of a connection; a call without one has the rights of any client.
    ///
    /// # Errors
    /// Only API servers may call, and it is none.
    pub(super) fn check(&self, peer: Option<&Peer>) -> Result<ReviewCaller, AdmissionError> {
        let caller = peer.map_or(ReviewCaller::Unverified, |peer| self.identify(peer));
        if caller == ReviewCaller::Verified {
            self.observe_verified();
        } else if self.is_in_force() {
            metrics::CALLERS.with(["refused"]).increment(1);
            return Err(AdmissionError::Caller);
        }
        metrics::CALLERS.with([caller.name()]).increment(1);
        Ok(caller)
    }

    /// Records that an API server has presented its certificate to a replica: it will to this one.
    pub fn observe_verified(&self) {
        if !self.is_proven.swap(true, Ordering::Relaxed) && self.is_in_force() {
            info!("an API server has presented its certificate: other callers are refused now");
        }
    }

    /// The handshake has verified the chain.
    fn identify(&self, peer: &Peer) -> ReviewCaller {
        let leaf = peer.certificates.as_ref().and_then(|chain| chain.first());
        let parsed = leaf.and_then(|leaf| parse_x509_certificate(leaf).ok());
        let is_named = parsed.is_some_and(|(_, certificate)| {
            let mut names = certificate.subject().iter_common_name();
            let name = names.next().and_then(|name| name.as_str().ok());
            let is_listed = name.is_some_and(|name| self.names.iter().any(|listed| listed == name));
            is_listed && names.next().is_none()
        });
        if is_named {
            ReviewCaller::Verified
        } else {
            ReviewCaller::Unverified
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    /// A client with a certificate of these common names, which a handshake has verified.
    fn peer(names: &[&str]) -> Peer {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Peer::new(ADDRESS, Some(Arc::from([certificate.der().clone()])))
    }

    fn check(callers: Callers) -> CallerCheck {
        CallerCheck::new(&CallerArgs {
            callers,
            caller_names: vec!["kube-apiserver".to_owned()],
        })
    }

    #[test]
    fn callers_without_a_certificate_are_refused_once_an_api_server_has_presented_one() {
        let check = check(Callers::ClientCertificate);
        let anyone = Peer::new(ADDRESS, None);
        assert_eq!(
            check.check(Some(&anyone)).unwrap(),
            ReviewCaller::Unverified,
            "not proven"
        );
        assert_eq!(check.state(), "unproven");
        assert_eq!(
            check.check(Some(&peer(&["kube-apiserver"]))).unwrap(),
            ReviewCaller::Verified
        );
        for other in [Some(&anyone), None, Some(&peer(&["system:node:n1"]))] {
            assert!(matches!(check.check(other), Err(AdmissionError::Caller)));
        }
        assert_eq!(check.state(), "verified");
    }

    /// The CA of a cluster signs the certificates of all its kubelets.
    #[test]
    fn a_certificate_of_another_client_proves_nothing() {
        let check = check(Callers::ClientCertificate);
        for name in ["system:node:n1", "", "kube-apiserver "] {
            assert_eq!(
                check.check(Some(&peer(&[name]))).unwrap(),
                ReviewCaller::Unverified
            );
        }
        assert!(!check.is_in_force());
    }

    #[test]
    fn all_callers_are_served_and_told_apart_by_default() {
        let check = check(Callers::Any);
        assert_eq!(
            check.check(Some(&peer(&["kube-apiserver"]))).unwrap(),
            ReviewCaller::Verified
        );
        assert_eq!(check.check(None).unwrap(), ReviewCaller::Unverified);
    }
}
