//! Global flags: connection to the webhook or the API server, and output format.

use std::{fmt, path::PathBuf, str::FromStr};

use clap::ValueEnum;
use headroom_domain::{
    installation::{Installation, NameSuffix, Namespace},
    names,
};
use http::uri::Authority;

/// Connection to the webhook or the API server, with TLS trust and identity.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Host and port of the webhook's hint service [default: a port-forward to a webhook pod through the API server].
    #[arg(long, global = true, env = "HEADROOM_ADDR", value_name = "HOST:PORT")]
    pub addr: Option<Address>,
    /// PEM file with the CA of the webhook's certificate [default: caBundle of the cluster's webhook configuration].
    #[arg(long, global = true, env = "HEADROOM_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Server name in the webhook's certificate [default: name of the hint service, by --namespace and
    /// --name-suffix].
    #[arg(long, global = true, env = "HEADROOM_TLS_SERVER_NAME", value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// File with a token for audience headroom-webhook [default: a token of service account headroom-viewer,
    /// requested from the
    /// API server; it is valid for 10 minutes and renewed].
    #[arg(long, global = true, env = "HEADROOM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Kubeconfig for connections to the API server [default: KUBECONFIG, then ~/.kube/config].
    #[arg(long, global = true, env = "HEADROOM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context].
    #[arg(long, global = true, env = "HEADROOM_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// User to impersonate at the API server.
    #[arg(long = "as", global = true, env = "HEADROOM_AS", value_name = "USER")]
    pub as_user: Option<String>,
    /// Group to impersonate at the API server; may be repeated.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_AS_GROUP",
        value_name = "GROUP",
        value_delimiter = ',',
        requires = "as_user"
    )]
    pub as_group: Vec<String>,
    /// Namespace of the webhook.
    #[arg(long, global = true, env = "HEADROOM_NAMESPACE", value_name = "NAME", default_value_t = Installation::default().namespace)]
    pub namespace: Namespace,
    /// Suffix of the names of the installation's objects, such as -b for headroom-webhook-b.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_NAME_SUFFIX",
        value_name = "SUFFIX",
        default_value_t,
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub name_suffix: NameSuffix,
}

impl ConnectArgs {
    /// Installation that the flags select.
    pub fn installation(&self) -> Installation {
        Installation {
            namespace: self.namespace.clone(),
            suffix: self.name_suffix.clone(),
            ..Installation::default()
        }
    }

    /// `kubectl` for a shell, with the flags that select the same cluster.
    pub fn kubectl(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let flags = [("--kubeconfig", kubeconfig), ("--context", self.context.clone())];
        let mut command = "kubectl".to_owned();
        for (flag, value) in flags {
            if let Some(value) = value {
                command.extend([" ", flag, " ", &quoted(value)]);
            }
        }
        command
    }
}

/// Quotes a word for a shell if necessary.
fn quoted(word: String) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+=,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// Text; columns that do not fit the terminal are left out.
    #[default]
    Table,
    /// Text with all columns.
    Wide,
    /// JSON; numbers are integers, with the unit in the key.
    Json,
    /// YAML with the same fields as JSON; with --watch, each update is one document.
    Yaml,
    /// Names of nodes only, such as node/worker-1.
    Name,
}

/// Reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Table,
    /// A program: integers, with the unit in the key.
    Json,
}

impl OutputFormat {
    /// YAML is converted from JSON.
    pub const fn format(self) -> Format {
        match self {
            Self::Table | Self::Wide | Self::Name => Format::Table,
            Self::Json | Self::Yaml => Format::Json,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not HOST:PORT, such as 127.0.0.1:{}", names::HINTS_PORT)]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let authority: Authority = text.parse().map_err(|_invalid| AddressError)?;
        match (authority.host(), authority.port_u16()) {
            (host, Some(port)) if !host.is_empty() && !text.contains('@') => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(AddressError),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        write!(f, "{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Args;

    #[test]
    fn printed_kubectl_commands_select_the_same_cluster() {
        let kubectl = |flags: &[&str]| {
            let line = ["kubectl-headroom"].iter().chain(flags).chain(&["off"]);
            Args::try_parse_from(line).unwrap().connect.kubectl()
        };
        assert_eq!(kubectl(&[]), "kubectl");
        assert_eq!(
            kubectl(&[
                "--context",
                "arn:aws/prod",
                "--kubeconfig",
                "/home/it's me/config"
            ]),
            r"kubectl --kubeconfig '/home/it'\''s me/config' --context arn:aws/prod"
        );
    }

    #[test]
    fn an_address_needs_a_host_and_a_port() {
        for good in ["127.0.0.1:9444", "[::1]:9444", "a.b.svc:1"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "localhost",
            ":9444",
            "a:b",
            "me@host:1",
            "https://a:1",
            "a:1/x",
        ] {
            assert_eq!(bad.parse::<Address>(), Err(AddressError), "{bad}");
        }
    }
}
