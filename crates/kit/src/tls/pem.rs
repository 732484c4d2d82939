//! Reads certificates and keys from PEM and checks that they belong together.

use std::{fmt, path::Path, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};
use rustls_pki_types::pem::{self, PemObject as _};
use x509_parser::{certificate::X509Certificate, parse_x509_certificate};

use super::{Files, TlsError};

/// A certificate with its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct PemPair {
    /// The certificate, possibly followed by intermediates.
    pub cert: String,
    /// The private key of the first certificate.
    pub key: String,
}

/// Content of both files of a key pair.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) cert: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Validity of a certificate, in seconds since the Unix epoch, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl fmt::Debug for PemPair {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cert, key: _ } = self;
        f.debug_struct("PemPair")
            .field("cert", cert)
            .finish_non_exhaustive()
    }
}

impl From<&PemPair> for Content {
    fn from(PemPair { cert, key }: &PemPair) -> Self {
        Self {
            cert: cert.as_bytes().to_vec(),
            key: key.as_bytes().to_vec(),
        }
    }
}

/// Names of a pair that is in no file, for errors.
pub(super) fn memory() -> Files {
    Files {
        cert: "the certificate in memory".into(),
        key: "the key in memory".into(),
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads both files of a key pair. They may be of different generations while they are being replaced.
pub(super) fn read_pair(files: &Files) -> Result<Content, TlsError> {
    Ok(Content {
        cert: read(&files.cert)?,
        key: read(&files.key)?,
    })
}

/// All certificates in PEM text: at least one.
pub(super) fn certificates(text: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|source| no_certificate(path, source))?;
    if found.is_empty() {
        Err(no_certificate(path, pem::Error::NoItemsFound))
    } else {
        Ok(found)
    }
}

/// Trust anchors in a PEM file.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&read(path)?, path)? {
        roots.add(certificate).map_err(|source| TlsError::Unusable {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(roots)
}

/// Private key in PEM text.
pub(super) fn private_key(text: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        what: "private key",
        source,
    })
}

/// Builds a key pair ready for use and returns the validity of its leaf.
///
/// # Errors
/// Malformed PEM, a key type that ring does not support, a key of another certificate, or certificates out of order.
pub(super) fn certified(content: &Content, files: &Files) -> Result<(CertifiedKey, Validity), TlsError> {
    let chain = certificates(&content.cert, &files.cert)?;
    let key = private_key(&content.key, &files.key)?;
    let validity = check_chain(&chain, &files.cert)?;
    let key = any_supported_type(&key).map_err(|source| TlsError::Unusable {
        path: files.key.clone(),
        source,
    })?;
    let certified = CertifiedKey::new(chain, Arc::clone(&key));
    match certified.keys_match() {
        Ok(()) => Ok((certified, validity)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch {
            cert: files.cert.clone(),
            key: files.key.clone(),
        }),
        Err(source) => Err(TlsError::Unusable {
            path: files.cert.clone(),
            source,
        }),
    }
}

/// Validity of the first certificate in PEM text.
///
/// # Errors
/// Malformed PEM or certificates out of order.
pub(super) fn validity(text: &[u8], path: &Path) -> Result<Validity, TlsError> {
    check_chain(&certificates(text, path)?, path)
}

/// Validity of one certificate.
///
/// # Errors
/// Malformed DER.
pub(super) fn validity_of(der: &CertificateDer<'_>) -> Result<Validity, TlsError> {
    let (_, parsed) = parse_x509_certificate(der).map_err(|source| TlsError::Certificate {
        path: memory().cert,
        position: 1,
        source: source.into(),
    })?;
    let validity = parsed.validity();
    Ok(Validity {
        from: validity.not_before.timestamp(),
        to: validity.not_after.timestamp(),
    })
}

/// Checks that each certificate is issued by the one that follows it; returns the validity of the first.
fn check_chain(chain: &[CertificateDer<'_>], path: &Path) -> Result<Validity, TlsError> {
    let mut leaf = None;
    let mut before: Option<X509Certificate<'_>> = None;
    for (position, der) in (1..).zip(chain) {
        let (_, this) = parse_x509_certificate(der).map_err(|source| TlsError::Certificate {
            path: path.to_owned(),
            position,
            source: source.into(),
        })?;
        if before.is_some_and(|before| before.issuer() != this.subject()) {
            return Err(TlsError::Chain {
                path: path.to_owned(),
                position,
            });
        }
        let validity = this.validity();
        leaf.get_or_insert(Validity {
            from: validity.not_before.timestamp(),
            to: validity.not_after.timestamp(),
        });
        before = Some(this);
    }
    leaf.ok_or_else(|| no_certificate(path, pem::Error::NoItemsFound))
}

fn no_certificate(path: &Path, source: pem::Error) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::tls::self_signed;

    /// A key pair, its CA, and their directory.
    fn made() -> (tempfile::TempDir, Files, Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        let files = self_signed::ensure(place.path(), &["a.svc".to_owned()], SystemTime::now()).unwrap();
        let ca = read(&place.path().join(self_signed::CA_CERT)).unwrap();
        (place, files, ca)
    }

    fn refusal(content: &Content, files: &Files) -> TlsError {
        certified(content, files).err().unwrap()
    }

    #[test]
    fn a_certificate_followed_by_its_issuer_is_a_chain() {
        let (_place, files, ca) = made();
        let mut content = read_pair(&files).unwrap();
        content.cert.extend(&ca);
        let (key, _) = certified(&content, &files).unwrap();
        assert_eq!(key.cert.len(), 2);
    }

    #[test]
    fn certificates_out_of_order_are_refused() {
        let (_place, files, ca) = made();
        let mut content = read_pair(&files).unwrap();
        let leaf = content.cert.clone();
        content.cert.extend(ca.iter().chain(&leaf));
        assert!(matches!(
            refusal(&content, &files),
            TlsError::Chain { position: 3, .. }
        ));
    }

    #[test]
    fn the_key_of_another_certificate_is_refused() {
        let ((_one, files, _), (_other, others, _)) = (made(), made());
        let mixed = Content {
            key: read(&others.key).unwrap(),
            ..read_pair(&files).unwrap()
        };
        assert!(matches!(refusal(&mixed, &files), TlsError::Mismatch { .. }));
    }

    #[test]
    fn text_without_certificate_or_key_is_refused() {
        let (_place, files, _) = made();
        let good = read_pair(&files).unwrap();
        let (cert, key) = (good.cert.clone(), good.key.clone());
        let empty = |content: Content| refusal(&content, &files).to_string();
        assert!(empty(Content { cert: vec![], key }).starts_with("no usable certificate in "));
        assert!(empty(Content { cert, key: vec![] }).starts_with("no usable private key in "));
        let torn = Content {
            cert: good.cert[..200].to_vec(),
            ..good
        };
        assert!(empty(torn).starts_with("no usable certificate in "));
    }
}
