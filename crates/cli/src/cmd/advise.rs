//! `advise`: prints the ratios that Headroom would have set in the past, before the installation.

mod args;

use std::{
    fs,
    io::Write,
    net::IpAddr,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use headroom_domain::{policy::Bounds, resource::PerResource};
use http::Uri;
use kube::Config;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

pub(crate) use self::args::AdviseArgs;
use self::args::Service;
use super::Session;
use crate::{
    advise::{
        self, Policy, ReplayRequest,
        query::Expressions,
        source::{Server, Source},
        span::Span,
    },
    args::{ConnectArgs, Format},
    connect,
    error::Error,
    output::Layout,
};

impl AdviseArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let order = order(&self);
        if let Some(directory) = &self.save {
            fs::create_dir_all(directory).map_err(|source| advise::AdviceError::Write {
                path: directory.clone(),
                source,
            })?;
        }
        let source = source(&session.connect, &self).await?;
        let advice = advise::advise(&source, &order).await?;
        session.screen.print(&match session.format {
            Format::Table => advice.text(Layout {
                width: session.screen.width(),
                ..Layout::default()
            }),
            Format::Json => format!("{}\n", advice.json()),
        })?;
        if let Some(file) = &self.html {
            fs::write(file, advice.html()).map_err(|source| advise::AdviceError::Write {
                path: file.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

fn order(args: &AdviseArgs) -> ReplayRequest {
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
    };
    ReplayRequest {
        span: Span::until(args.until.unwrap_or_else(now), args.length()),
        step_s: args.step_seconds,
        policy: Policy {
            bounds: PerResource {
                cpu: Bounds {
                    min: args.lo,
                    max: args.hi,
                },
                memory: Bounds {
                    min: args.lo,
                    max: args.hi_memory,
                },
            },
            target_ppm: PerResource::from_fn(|_| args.theta * 10_000),
        },
        pool_label: args.pool_label.clone(),
    }
}

async fn source(connect: &ConnectArgs, args: &AdviseArgs) -> Result<Source, Error> {
    if let Some(directory) = &args.from {
        return Ok(Source::Saved(directory.clone()));
    }
    let (client, prefix) = match (&args.prometheus, &args.prometheus_service) {
        (Some(url), _) => {
            if args.prometheus_token_file.is_some() {
                check_token_transport(url)?;
            }
            let mut config = Config::new(url.clone());
            if let Some(path) = &args.prometheus_ca_file {
                config.root_cert = Some(certificates(path)?);
            }
            config.auth_info.token_file = args
                .prometheus_token_file
                .as_ref()
                .map(|path| path.display().to_string());
            let client = connect::client(config).map_err(|source| Error::Cluster {
                attempt: "create a client of the Prometheus server",
                reason: Box::new(source),
            })?;
            (client, String::new())
        }
        (None, service) => {
            let path = service.as_ref().map(Service::proxy_path);
            (connect::api(connect).await?, path.unwrap_or_default())
        }
    };
    Ok(Source::Server(Server {
        client,
        prefix,
        expressions: Expressions::new(&args.queries),
        step_s: args.step_seconds,
        save: args.save.clone(),
    }))
}

/// Refuses a URL over which the token would be sent unencrypted to another machine.
fn check_token_transport(url: &Uri) -> Result<(), advise::AdviceError> {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if url.scheme_str() == Some("https") || is_loopback {
        Ok(())
    } else {
        Err(advise::AdviceError::PlainToken {
            host: host.to_owned(),
        })
    }
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
    fn a_token_is_sent_unencrypted_to_loopback_only() {
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
            let kept = check_token_transport(&url.parse().unwrap());
            assert_eq!(kept.is_ok(), is_kept, "{url}");
        }
    }
}
