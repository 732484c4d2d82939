//! `version`: prints the versions of this program and of each webhook replica, and if they are compatible.

use std::{fmt, io::Write};

use headroom_proto::{ReleaseVersion, ReplicaVersion};
use serde_json::{Value, json};

use super::Session;
use crate::{
    args::Format,
    connect::{self, AskedVersion},
    error::Error,
    escape::one_line,
};

/// Versions of this program and of the webhook, and if they are compatible.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Programs of one minor version are compatible, such as 0.1.0 and 0.1.3. If minor versions differ, use the kubectl-headroom of
the webhook's version: fields that the older one does not know are missing or refused.

Examples:
  kubectl headroom version
  kubectl headroom version --client -o json | jq -r .client")]
pub(crate) struct VersionArgs {
    /// Print only this program's version; needs no cluster.
    #[arg(long, env = "HEADROOM_CLIENT")]
    client: bool,
}

impl VersionArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session {
            connect,
            format,
            screen,
            ..
        } = session;
        let mut versions = Versions {
            client: env!("CARGO_PKG_VERSION"),
            servers: None,
        };
        if !self.client {
            versions.servers = Some(connect::versions(&connect).await?);
        }
        screen.print(&match format {
            Format::Table => versions.to_string(),
            Format::Json => format!("{:#}\n", versions.json()),
        })
    }
}

/// Versions of the client and of all replicas.
struct Versions {
    client: &'static str,
    /// `None` with `--client`.
    servers: Option<Vec<AskedVersion>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skew {
    None,
    /// Only the patch version differs: compatible.
    Patch,
    /// Fields of one may be unknown to the other.
    Minor,
    Major,
}

impl Skew {
    fn between(one: &ReleaseVersion, other: &ReleaseVersion) -> Self {
        if one == other {
            Self::None
        } else if one.major != other.major {
            Self::Major
        } else if one.minor != other.minor {
            Self::Minor
        } else {
            Self::Patch
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::None => "same as this program",
            Self::Patch => "compatible with this program",
            Self::Minor => "another minor version: use the kubectl-headroom of that version",
            Self::Major => "another major version: use the kubectl-headroom of that version",
        }
    }
}

impl Versions {
    /// `None` if this program's version cannot be compared.
    fn skew(&self, version: &ReleaseVersion) -> Option<Skew> {
        let own = self.client.parse().ok()?;
        Some(Skew::between(&own, version))
    }

    fn json(&self) -> Value {
        let server = |server: &AskedVersion| match server {
            AskedVersion::Known(ReplicaVersion { replica, version }) => json!({
                "replica": replica,
                "version": version.to_string(),
                "skew": self.skew(version).map(Skew::word),
            }),
            AskedVersion::Older { addr } => json!({"address": addr, "version": null}),
            AskedVersion::Failed { addr, reason } => {
                json!({"address": addr, "version": null, "error": reason})
            }
        };
        let servers = self.servers.as_ref();
        let servers = servers.map(|servers| servers.iter().map(server).collect::<Value>());
        json!({"client": self.client, "servers": servers})
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, servers } = self;
        writeln!(f, "client: {client}")?;
        for server in servers.iter().flatten() {
            match server {
                AskedVersion::Known(ReplicaVersion { replica, version }) => {
                    let skew = self.skew(version).map_or("", Skew::sentence);
                    writeln!(f, "server: {version}, replica {replica}: {skew}")?;
                }
                AskedVersion::Older { addr } => {
                    writeln!(f, "server: at {addr}, too old to report its version")?;
                }
                AskedVersion::Failed { addr, reason } => {
                    writeln!(f, "server: at {addr}, no answer: {}", one_line(reason))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn versions() -> Versions {
        let server = |replica: &str, version: &str| {
            AskedVersion::Known(ReplicaVersion {
                replica: replica.to_owned(),
                version: version.parse().unwrap(),
            })
        };
        Versions {
            client: "0.2.0",
            servers: Some(vec![
                server("webhook-0", "0.2.0"),
                server("webhook-1", "0.2.1-rc.1"),
                server("webhook-2", "0.3.0"),
                server("webhook-3", "1.2.0"),
                AskedVersion::Older {
                    addr: "10.0.0.1:9444".to_owned(),
                },
                AskedVersion::Failed {
                    addr: "10.0.0.2:9444".to_owned(),
                    reason: "gone".to_owned(),
                },
            ]),
        }
    }

    #[test]
    fn each_replica_is_compared_with_this_program() {
        assert_snapshot!(versions().to_string(), @r"
        client: 0.2.0
        server: 0.2.0, replica webhook-0: same as this program
        server: 0.2.1-rc.1, replica webhook-1: compatible with this program
        server: 0.3.0, replica webhook-2: another minor version: use the kubectl-headroom of that version
        server: 1.2.0, replica webhook-3: another major version: use the kubectl-headroom of that version
        server: at 10.0.0.1:9444, too old to report its version
        server: at 10.0.0.2:9444, no answer: gone
        ");
        let value = versions().json();
        let skews: Vec<_> = (0..6)
            .map(|place| value["servers"][place]["skew"].as_str())
            .collect();
        assert_eq!(
            skews,
            [
                Some("none"),
                Some("patch"),
                Some("minor"),
                Some("major"),
                None,
                None
            ]
        );
        assert_eq!(value["servers"][5]["error"], "gone");
    }
}
