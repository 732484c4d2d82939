//! Settings of TLS servers: protocol versions, client certificates, ALPN.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};

use super::{TlsError, pem, provider};

/// The oldest protocol version spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3 only.
    #[value(name = "1.3")]
    Tls13,
}

/// The demand for client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Nothing; a certificate is not asked for.
    #[default]
    None,
    /// A certificate of this CA (PEM file), or none.
    Optional(PathBuf),
    /// A certificate of this CA (PEM file).
    Required(PathBuf),
}

static FROM_TLS12: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static FROM_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

impl MinVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => FROM_TLS12,
            Self::Tls13 => FROM_TLS13,
        }
    }
}

/// Settings for a listener. `alpn` lists protocols in order of preference: `h2`, `http/1.1`.
///
/// The client CA is read once: a new one counts after a restart.
///
/// # Errors
/// The client CA cannot be read or used.
pub fn server_config(
    keys: Arc<dyn ResolvesServerCert>,
    min: MinVersion,
    clients: &ClientAuth,
    alpn: &[&str],
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(min.versions())
        .map_err(TlsError::Settings)?;
    let verifier = |path: &PathBuf, is_required: bool| {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(pem::roots(path)?), provider());
        let verifier = if is_required {
            verifier
        } else {
            verifier.allow_unauthenticated()
        };
        verifier.build().map_err(|source| TlsError::ClientAuthority {
            path: path.clone(),
            source,
        })
    };
    let mut config = match clients {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Optional(ca) => builder.with_client_cert_verifier(verifier(ca, false)?),
        ClientAuth::Required(ca) => builder.with_client_cert_verifier(verifier(ca, true)?),
    }
    .with_cert_resolver(keys);
    if *clients != ClientAuth::None {
        // A resumed session would carry a client certificate that nobody looks at again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}
