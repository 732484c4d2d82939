//! Verifies a certificate chain like a client that trusts only a given CA bundle.
//!
//! `CertStore::verify` is its caller, and [`verify_chain`] for chains that are not in use.

use std::time::{Duration, SystemTime};

use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    pki_types::{CertificateDer, UnixTime},
    server::ParsedCertificate,
};
use rustls_pki_types::pem::{self, PemObject as _};

use super::{
    TlsError, client,
    pem::{self as pem_file, memory},
    provider, seconds,
};

/// Verifies a chain in PEM, leaf first, like a client that trusts only `authorities` (PEM) and connects to `name`.
///
/// # Errors
/// Malformed PEM, or the client would refuse the certificate.
pub fn verify_chain(chain: &[u8], authorities: &[u8], name: &str, now: SystemTime) -> Result<(), TlsError> {
    verify(
        &pem_file::certificates(chain, &memory().cert)?,
        authorities,
        name,
        now,
    )
}

/// Verifies a chain, leaf first, like a client that trusts only `authorities` (PEM) and connects to `name`, a DNS
/// name or an IP address. As in the API server, a leaf that is itself in the bundle needs no issuer.
///
/// # Errors
/// The bundle contains no certificate or does not verify the leaf, or the leaf is not valid for that name or at this
/// time.
pub(super) fn verify(
    chain: &[CertificateDer<'_>],
    authorities: &[u8],
    name: &str,
    now: SystemTime,
) -> Result<(), TlsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(authorities)
        .collect::<Result<_, _>>()
        .map_err(TlsError::Authorities)?;
    let (Some((leaf, intermediates)), false) = (chain.split_first(), found.is_empty()) else {
        return Err(TlsError::Authorities(pem::Error::NoItemsFound));
    };
    let untrusted = |source| TlsError::Untrusted {
        name: name.to_owned(),
        source,
    };
    let parsed = ParsedCertificate::try_from(leaf).map_err(untrusted)?;
    verify_server_name(&parsed, &client::server_name(name)?).map_err(untrusted)?;
    if found.iter().any(|one| one.as_ref() == leaf.as_ref()) {
        return Ok(());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds(now).unsigned_abs()));
    let algorithms = provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, now, algorithms)
        .map_err(untrusted)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::tls::{CertStore, self_signed};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A key pair for `a.svc` and the bundle with its CA.
    fn made() -> (TempDir, std::sync::Arc<CertStore>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let files = self_signed::ensure(folder.path(), &["a.svc".to_owned()], now).unwrap();
        let bundle = std::fs::read(folder.path().join(self_signed::CA_CERT)).unwrap();
        let store = CertStore::load("test", files, now).unwrap();
        (folder, store, bundle)
    }

    #[test]
    fn a_ca_verifies_only_its_own_certificates_names_and_times() {
        let ((_one, store, own), (_other, _, foreign)) = (made(), made());
        let now = SystemTime::now();
        store.verify(&own, "a.svc", now).unwrap();
        let both = [foreign.clone(), own.clone()].concat();
        store.verify(&both, "a.svc", now).unwrap();
        for (bundle, name, now) in [
            (&foreign, "a.svc", now),
            (&own, "b.svc", now),
            (&own, "127.0.0.1", now),
            (&own, "a.svc", now + 400 * DAY),
        ] {
            let refused = store.verify(bundle, name, now).unwrap_err();
            assert!(matches!(refused, TlsError::Untrusted { .. }), "{refused:?}");
        }
    }

    #[test]
    fn a_leaf_in_the_bundle_needs_no_issuer_and_an_empty_bundle_verifies_none() {
        let (folder, store, _) = made();
        let now = SystemTime::now();
        let leaf = std::fs::read(folder.path().join(self_signed::CERT)).unwrap();
        store.verify(&leaf, "a.svc", now).unwrap();
        store.verify(&leaf, "b.svc", now).unwrap_err();
        for nothing in [&b""[..], b"x"] {
            let refused = store.verify(nothing, "a.svc", now).unwrap_err();
            assert!(matches!(refused, TlsError::Authorities(_)), "{refused:?}");
        }
    }
}
