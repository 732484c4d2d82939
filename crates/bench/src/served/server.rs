//! Serves the webhook's admission router over TLS on loopback, with a self-signed certificate.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use anyhow::Result;
use headroom_kit::{
    serve::{Limits, Listener},
    supervise::Shutdown,
    tls::{self, CertStore, ClientAuth, MinVersion, client::client_config, self_signed, server_config},
};
use headroom_webhook::admission::router::Router;
use rustls::{ClientConfig, ServerConfig};
use tokio::task::JoinHandle;

/// DNS name in the certificate of every server.
pub(crate) const LOCALHOST: &str = "localhost";
/// ALPN protocol of the admission port.
pub(crate) const HTTP_1: &str = "http/1.1";

/// Admission port of the webhook around a router.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts to serve, with a new certificate in `directory`.
    pub(crate) async fn start(router: Router, directory: &Path) -> Result<Self> {
        let tls = server_tls(self_signed_store(directory)?, HTTP_1)?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind("bench", loopback, Limits::default()).await?;
        let address = listener.address();
        let shutdown = Shutdown::new();
        let serving = tokio::spawn(listener.serve_http(Some(tls), shutdown.clone(), move |request| {
            let router = router.clone();
            async move { router.respond(request).await }
        }));
        Ok(Self {
            address,
            shutdown,
            serving,
        })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.shutdown.stop();
        self.serving.await?;
        Ok(())
    }
}

/// Creates a CA and a certificate for [`LOCALHOST`] in `directory`.
pub(crate) fn self_signed_store(directory: &Path) -> Result<Arc<CertStore>> {
    tls::install_provider();
    let files = self_signed::ensure(directory, &[LOCALHOST.to_owned()], SystemTime::now())?;
    Ok(CertStore::load("bench", files, SystemTime::now())?)
}

pub(crate) fn server_tls(store: Arc<CertStore>, alpn: &str) -> Result<Arc<ServerConfig>> {
    Ok(server_config(
        store,
        MinVersion::Tls12,
        &ClientAuth::None,
        &[alpn],
    )?)
}

/// TLS client settings that trust the CA in `directory`.
pub(crate) fn client_tls(directory: &Path, alpn: &str) -> Result<Arc<ClientConfig>> {
    tls::install_provider();
    Ok(client_config(
        &directory.join(self_signed::CA_CERT),
        None,
        &[alpn],
    )?)
}
