//! TLS with one provider (ring): key pairs from files, server and client settings, self-signed certificates.

pub mod client;
pub mod self_signed;

mod pem;
mod server;
mod store;
mod trust;

use std::{io, path::PathBuf, sync::Arc, time::SystemTime};

use rustls::{
    CipherSuite,
    crypto::{CryptoProvider, ring},
};

pub use self::{
    server::{ClientAuth, MinVersion, server_config},
    store::{CertStore, watch},
};

/// Where the parts of a key pair are, as mounted from a Secret or written by [`self_signed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by its intermediates, in PEM.
    pub cert: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
}

/// Why certificates or keys are refused.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should in PEM.
    #[error("no usable {what} in {}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for: certificate or private key.
        what: &'static str,
        /// The reason of the PEM reader.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// A certificate is malformed.
    #[error("certificate {position} in {} is malformed", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Which certificate of the file, from 1.
        position: usize,
        /// The reason of the parser.
        #[source]
        source: x509_parser::error::X509Error,
    },
    /// The certificates of a chain do not follow each other.
    #[error("certificate {position} in {} is not the issuer of the one before it", path.display())]
    Chain {
        /// The file.
        path: PathBuf,
        /// Which certificate of the file, from 1.
        position: usize,
    },
    /// The private key does not belong to the certificate.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// The provider cannot use what a file holds.
    #[error("cannot use {}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// The TLS library refuses settings.
    #[error("refused TLS settings")]
    Settings(#[source] rustls::Error),
    /// Client certificates cannot be verified against the CA.
    #[error("cannot verify clients with {}", path.display())]
    ClientAuthority {
        /// The file with the client CA.
        path: PathBuf,
        /// The reason of the TLS library.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    /// A bundle of authorities holds no certificate that can be read.
    #[error("no usable certificate among the authorities")]
    Authorities(#[source] rustls_pki_types::pem::Error),
    /// Clients that trust these authorities refuse the certificate in use.
    #[error("the authorities do not vouch for the certificate in use as that of {name}")]
    Untrusted {
        /// The name that a client connects to.
        name: String,
        /// The reason of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// Something is neither a DNS name nor an IP address.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    Name {
        /// The text as given.
        name: String,
        /// The reason of the parser.
        #[source]
        source: rustls_pki_types::InvalidDnsNameError,
    },
    /// A certificate cannot be issued.
    #[error("cannot issue a certificate")]
    Issue(#[source] rcgen::Error),
    /// The CA of a directory for self-signed certificates cannot be used, and clients trust it.
    #[error(
        "the CA in {} cannot be used, and clients trust it: restore ca.crt and ca.key, or remove them with tls.crt and \
         tls.key to have a new CA made",
        directory.display()
    )]
    UnusableAuthority {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<Self>,
    },
    /// A directory for self-signed certificates holds somebody else's.
    #[error("{} was not made here (there is no ca.key beside it) and is left alone", path.display())]
    Foreign {
        /// The certificate found.
        path: PathBuf,
    },
}

/// The one TLS provider of this workspace: ring, with AES-128-GCM offered first, as an API server does. It takes less
/// work for each byte than AES-256-GCM, which ring would offer first. A server still takes what its client prefers.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring_as_offered())
}

fn ring_as_offered() -> CryptoProvider {
    let mut ring = ring::default_provider();
    let first = CipherSuite::TLS13_AES_128_GCM_SHA256;
    ring.cipher_suites.sort_by_key(|suite| suite.suite() != first);
    ring
}

/// Makes [`provider`] the default of this process, for libraries that ask rustls for one. Harmless when repeated.
pub fn install_provider() {
    // Fails only when a default is there already; there is no second provider in the tree.
    drop(ring_as_offered().install_default());
}

/// Seconds since the Unix epoch; 0 for times before it.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
