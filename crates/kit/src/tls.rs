//! TLS with one provider (ring): key pairs from files, server and client settings, issued certificates.

pub mod authority;
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
    pem::PemPair,
    server::{ClientAuth, MinVersion, server_config},
    store::{CertStore, watch},
    trust::verify_chain,
};

/// Paths of a key pair, as mounted from a Secret or written by [`self_signed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by its intermediates, in PEM.
    pub cert: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
}

/// Reasons why certificates or keys are refused.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the unreadable file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file does not contain the expected PEM section.
    #[error("no usable {what} in {}", path.display())]
    Pem {
        /// Path of the PEM file.
        path: PathBuf,
        /// Expected section: certificate or private key.
        what: &'static str,
        /// Error of the PEM reader.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// A certificate is not valid X.509 in DER.
    #[error("certificate {position} in {} is malformed", path.display())]
    Certificate {
        /// Path of the PEM file.
        path: PathBuf,
        /// Position of the certificate in the file, from 1.
        position: usize,
        /// Error of the X.509 parser.
        #[source]
        source: x509_parser::error::X509Error,
    },
    /// A certificate is not issued by the one that follows it.
    #[error("certificate {position} in {} is not the issuer of the one before it", path.display())]
    Chain {
        /// Path of the PEM file with the chain.
        path: PathBuf,
        /// Position of the offending certificate in the file, from 1.
        position: usize,
    },
    /// The private key does not belong to the certificate.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// Path of the file with the certificate.
        cert: PathBuf,
        /// Path of the file with the key.
        key: PathBuf,
    },
    /// The provider cannot use the content of a file.
    #[error("cannot use {}", path.display())]
    Unusable {
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Error of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// The TLS library refuses settings.
    #[error("the TLS library refused the settings")]
    Settings(#[source] rustls::Error),
    /// Client certificates cannot be verified against the CA.
    #[error("cannot verify client certificates with {}", path.display())]
    ClientAuthority {
        /// Path of the file with the client CA.
        path: PathBuf,
        /// Error of the TLS library.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    /// A CA bundle contains no readable certificate.
    #[error("the CA bundle contains no usable certificate")]
    Authorities(#[source] rustls_pki_types::pem::Error),
    /// Clients that trust this CA bundle refuse the serving certificate.
    #[error("the CA bundle does not verify the serving certificate for {name}")]
    Untrusted {
        /// Name that the client connects to.
        name: String,
        /// Error of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// A name is neither a DNS name nor an IP address.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    Name {
        /// The text that is not a name.
        name: String,
        /// Error of the DNS name parser.
        #[source]
        source: rustls_pki_types::InvalidDnsNameError,
    },
    /// A certificate cannot be issued.
    #[error("cannot issue a certificate")]
    Issue(#[source] rcgen::Error),
    /// The CA in a directory for self-signed certificates cannot be used, but clients trust it.
    #[error(
        "the CA in {} cannot be used, but clients trust it; restore ca.crt and ca.key, or remove them with tls.crt and \
         tls.key to have a new CA made",
        directory.display()
    )]
    UnusableAuthority {
        /// Path of the directory with the CA.
        directory: PathBuf,
        /// Reason why the CA cannot be used.
        #[source]
        source: Box<Self>,
    },
    /// A directory for self-signed certificates contains a certificate issued elsewhere.
    #[error("{} was issued elsewhere (there is no ca.key next to it) and is not replaced", path.display())]
    Foreign {
        /// Path of the certificate issued elsewhere.
        path: PathBuf,
    },
}

/// The one TLS provider of this workspace: ring, with AES-128-GCM offered first, like the API server. It needs less
/// CPU per byte than AES-256-GCM, which ring offers first. A server still uses the client's preference.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring_as_offered())
}

fn ring_as_offered() -> CryptoProvider {
    let mut ring = ring::default_provider();
    let first = CipherSuite::TLS13_AES_128_GCM_SHA256;
    ring.cipher_suites.sort_by_key(|suite| suite.suite() != first);
    ring
}

/// Makes [`provider`] the default of this process, for libraries that ask rustls for one. Repeated calls are
/// harmless.
pub fn install_provider() {
    // Fails only if a default is set already; the dependency tree has no second provider.
    drop(ring_as_offered().install_default());
}

/// Seconds since the Unix epoch; 0 for earlier times.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
