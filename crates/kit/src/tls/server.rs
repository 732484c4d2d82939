//! Settings of TLS servers: protocol versions, client certificates, ALPN.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};

use super::{TlsError, pem, provider};

/// Oldest TLS version that the server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MinVersion {
    /// Accept TLS 1.2 and TLS 1.3.
    #[default]
    #[value(name = "1.2")]
    Tls12,
    /// Accept TLS 1.3 and nothing older.
    #[value(name = "1.3")]
    Tls13,
}

/// Demand for certificates of TLS clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Client certificates are not requested.
    #[default]
    None,
    /// Clients may present a certificate of this CA (PEM file).
    Optional(PathBuf),
    /// Clients must present a certificate of this CA (PEM file).
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

/// Builds the settings of a listener. `alpn` lists protocols in order of preference: `h2`, `http/1.1`.
///
/// The client CA is read once: a new CA needs a restart.
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
        // A resumed session would carry a client certificate that is not verified again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}
