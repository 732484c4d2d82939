//! Creates the client of the Prometheus server that `advise` queries, with its credential.

use std::{env, fs, net::IpAddr, path::Path};

use http::{
    Uri,
    header::{AUTHORIZATION, COOKIE},
};
use kube::{Client, Config, config::AuthInfo};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::{AdviseArgs, args::Service, private_values::ServerUrl};
use crate::{
    advise::{
        AdviceError,
        query::Expressions,
        source::{Server, Source},
    },
    args::ConnectArgs,
    connect::{self, Proxy},
    error::Error,
};

/// Variable with the password of --prometheus-user. It is no flag, so that no help shows its value.
const PASSWORD: &str = "HEADROOM_PROMETHEUS_PASSWORD";

/// Source of the responses: saved files, a server, or a server through the API server.
///
/// # Errors
/// A file is unusable, flags contradict each other, or a credential would be sent unencrypted.
pub(super) async fn source(connect: &ConnectArgs, args: &AdviseArgs) -> Result<Source, Error> {
    if let Some(directory) = &args.from {
        return Ok(Source::Saved(directory.clone()));
    }
    let (client, prefix) = match (&args.prometheus, &args.prometheus_service) {
        (Some(url), _) => (client(url, args)?, String::new()),
        (None, service) => {
            if let Some(header) = args.headers.iter().find(|header| header.name == AUTHORIZATION) {
                let name = header.name.clone();
                return Err(AdviceError::ApiServersHeader { name }.into());
            }
            let path = service.as_ref().map(Service::proxy_path);
            (connect::api(connect).await?, path.unwrap_or_default())
        }
    };
    let headers = args
        .headers
        .iter()
        .map(|header| (header.name.clone(), header.value.clone()));
    Ok(Source::Server(Box::new(Server {
        client,
        prefix,
        headers: headers.collect(),
        expressions: Expressions::new(&args.queries, &args.selectors),
        step_s: args.step_seconds,
        save: args.save.clone(),
    })))
}

fn client(url: &ServerUrl, args: &AdviseArgs) -> Result<Client, Error> {
    let (auth_info, credential) = credential(url, args)?;
    let secret_headers = args.headers.iter().map(|header| &header.name);
    let mut secret_headers = secret_headers.filter(|name| [AUTHORIZATION, COOKIE].contains(name));
    let secret_header = secret_headers.next().map(|name| format!("header {name}"));
    if let Some(credential) = credential.or(secret_header) {
        check_transport(&url.uri, credential)?;
    }
    let mut config = Config::new(url.uri.clone());
    if let Some(path) = &args.prometheus_ca_file {
        config.root_cert = Some(certificates(path)?);
    }
    config.auth_info = auth_info;
    let proxy = Proxy::of_environment(&url.uri)?;
    connect::client(config, proxy).map_err(|source| Error::Cluster {
        attempt: "create a client of the Prometheus server",
        reason: Box::new(source),
    })
}

/// The credential, and its name in errors.
fn credential(url: &ServerUrl, args: &AdviseArgs) -> Result<(AuthInfo, Option<String>), Error> {
    let mut auth_info = AuthInfo::default();
    let user = args.prometheus_user.as_ref().or(url.user.as_ref());
    let header = args.headers.iter().find(|header| header.name == AUTHORIZATION);
    let names = [
        args.prometheus_token_file
            .as_ref()
            .map(|_| "the token".to_owned()),
        user.map(|user| format!("user {user:?}")),
        header.map(|header| format!("header {}", header.name)),
    ];
    let mut names = names.into_iter().flatten();
    if let (Some(first), Some(second)) = (names.next(), names.next()) {
        return Err(AdviceError::TwoCredentials { first, second }.into());
    }
    if let Some(path) = &args.prometheus_token_file {
        auth_info.token_file = Some(path.display().to_string());
        return Ok((auth_info, Some("the token".to_owned())));
    }
    let Some(user) = user else {
        return match args.prometheus_password_file {
            Some(_) => Err(AdviceError::NoUser.into()),
            None => Ok((auth_info, None)),
        };
    };
    let password = match &args.prometheus_password_file {
        Some(path) => Some(fs::read_to_string(path).map_err(|source| AdviceError::Read {
            path: path.clone(),
            source,
        })?),
        None => env::var(PASSWORD).ok(),
    };
    let password = password.ok_or_else(|| AdviceError::NoPassword { user: user.clone() })?;
    auth_info.username = Some(user.clone());
    auth_info.password = Some(password.trim_end_matches(['\r', '\n']).to_owned().into());
    Ok((auth_info, Some(format!("the password of user {user:?}"))))
}

/// Refuses a URL over which a credential would be sent unencrypted to another machine.
fn check_transport(url: &Uri, credential: String) -> Result<(), AdviceError> {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if url.scheme_str() == Some("https") || is_loopback {
        return Ok(());
    }
    Err(AdviceError::PlainCredential {
        credential,
        host: host.to_owned(),
    })
}

fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let bad = |reason: String| Error::BadCa {
        path: path.to_owned(),
        reason,
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    let all = read.map(|certificate| certificate.map(|certificate| certificate.to_vec()));
    let all: Vec<Vec<u8>> = all
        .collect::<Result<_, _>>()
        .map_err(|error| bad(error.to_string()))?;
    if all.is_empty() {
        return Err(bad("it contains no certificate".to_owned()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_sent_unencrypted_to_loopback_only() {
        for (url, is_kept) in [
            ("https://prometheus.example/x", true),
            ("http://127.0.0.1:9090", true),
            ("http://127.8.0.1", true),
            ("http://[::1]:9090", true),
            ("http://localhost:9090", true),
            ("http://prometheus.example", false),
            ("http://localhost.example", false),
            ("http://10.0.0.1:9090", false),
            ("http://127.0.0.1.example", false),
            ("http://127.0.0.1@example:9090", false),
        ] {
            let kept = check_transport(&url.parse().unwrap(), "the token".to_owned());
            assert_eq!(kept.is_ok(), is_kept, "{url}");
        }
    }
}
