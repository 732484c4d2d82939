//! Checks the flags of hint servers at the start: CA bundle, credential and server name.

use headroom_kit::tls::{TlsError, client};

use super::StartError;
use crate::{
    args::{Args, Credential},
    publish::Access,
};

/// Checks the flags of hint servers, so that a mistake fails the start instead of the first connection.
pub(super) fn access(args: &Args) -> Result<Access, StartError> {
    let at = |flag| move |source| StartError::Flag { flag, source };
    let credential = args.credential();
    client::client_config(&args.ca_file, None, &[]).map_err(at("--ca-file"))?;
    match &credential {
        Credential::Token(path) => {
            let read = std::fs::read_to_string(path);
            read.map_err(|source| TlsError::Read {
                path: path.clone(),
                source,
            })
            .map_err(at("--token-file"))?;
        }
        Credential::Certificate(files) => {
            client::client_config(&args.ca_file, Some(files), &[]).map_err(at("--client-cert-file"))?;
        }
    }
    let server_name = client::server_name(&args.webhook_server_name).map_err(at("--webhook-server-name"))?;
    Ok(Access {
        server_name,
        ca_file: args.ca_file.clone(),
        credential,
    })
}
