//! Flags of `advise` and their parsers.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use clap::{ArgGroup, builder::RangedU64ValueParser};
use headroom_domain::ratio::Cents;

use super::private_values::{Header, ServerUrl, header_parser, url_parser};
use crate::advise::{matcher::LabelMatcher, query::Replacement, span::FRAME_S};

/// Capacity that Headroom would have added, computed from the history in a Prometheus server before the installation.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("past").required(true), after_help = "\
Needs at least two days of history: use from cAdvisor, nodes and pods from kube-state-metrics. An agent measures bursts that
averages hide, and sets lower ratios. The expressions name no job; if other tenants can add scrape targets, pin it with --selector
or --query. The proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY are used as by kubectl.

Examples:
  kubectl headroom advise --prometheus http://127.0.0.1:9090 --pool-label label_node_kubernetes_io_instance_type

  # Through the API server, with plots; requires permission to get services/proxy
  kubectl headroom advise --prometheus-service monitoring/prometheus:9090 --days 14 --html advice.html

  # One cluster of several in a shared server
  kubectl headroom advise --prometheus https://ann@metrics.example --prometheus-password-file password --selector cluster=prod

  # Again with other bounds, without the server
  kubectl headroom advise --prometheus http://127.0.0.1:9090 --save past
  kubectl headroom advise --from past --lo 0.50 --theta 95 -o json")]
pub(crate) struct AdviseArgs {
    /// Base URL of a Prometheus server; may contain a user, but no password.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS",
        hide_env_values = true,
        value_name = "URL",
        group = "past",
        value_parser = url_parser()
    )]
    pub(crate) prometheus: Option<ServerUrl>,
    /// Prometheus server in the cluster, through the API server: NAMESPACE/SERVICE, with :PORT (number or name) if
    /// the Service's
    /// port has a name.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS_SERVICE",
        value_name = "SERVICE",
        group = "past"
    )]
    pub(crate) prometheus_service: Option<Service>,
    /// Directory of saved responses: NAME.json or NAME-*.json for each query, as the server returns them.
    #[arg(long, env = "HEADROOM_FROM", value_name = "DIR", group = "past")]
    pub(crate) from: Option<PathBuf>,
    /// PEM file with the CA of the server's certificate.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS_CA_FILE",
        value_name = "FILE",
        requires = "prometheus",
        conflicts_with = "prometheus_service"
    )]
    pub(crate) prometheus_ca_file: Option<PathBuf>,
    /// File with a bearer token for the server; over plain HTTP it is sent to loopback only.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS_TOKEN_FILE",
        value_name = "FILE",
        requires = "prometheus",
        conflicts_with = "prometheus_service"
    )]
    pub(crate) prometheus_token_file: Option<PathBuf>,
    /// User of the server's basic authentication [default: the user in the URL]. The password is in the variable
    /// HEADROOM_PROMETHEUS_PASSWORD or in --prometheus-password-file; over plain HTTP it is sent to loopback only.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS_USER",
        value_name = "NAME",
        requires = "prometheus",
        conflicts_with = "prometheus_service",
        value_parser = user
    )]
    pub(crate) prometheus_user: Option<String>,
    /// File with the password of the user.
    #[arg(
        long,
        env = "HEADROOM_PROMETHEUS_PASSWORD_FILE",
        value_name = "FILE",
        requires = "prometheus",
        conflicts_with = "prometheus_service"
    )]
    pub(crate) prometheus_password_file: Option<PathBuf>,
    /// Header of each request, such as X-Scope-OrgID: team-a; may be repeated.
    #[arg(
        long = "header",
        env = "HEADROOM_HEADER",
        hide_env_values = true,
        value_name = "NAME: VALUE",
        conflicts_with = "from",
        value_parser = header_parser()
    )]
    pub(crate) headers: Vec<Header>,
    /// Only series with this label, such as cluster=prod; also with !=, =~ and !~. May be repeated. The condition is
    /// added to each selector of each query, including those of --query.
    #[arg(
        long = "selector",
        env = "HEADROOM_SELECTOR",
        value_name = "LABEL=VALUE",
        conflicts_with = "from"
    )]
    pub(crate) selectors: Vec<LabelMatcher>,
    /// Replace the expression of a query; may be repeated. Its series must have the label node, those of pods also
    /// namespace and pod.
    #[arg(long = "query", env = "HEADROOM_QUERY", value_name = "NAME=PROMQL")]
    pub(crate) queries: Vec<Replacement>,
    /// Label of kube_node_labels with a node's pool [default: all nodes are one pool].
    #[arg(long, env = "HEADROOM_POOL_LABEL", value_name = "LABEL")]
    pub(crate) pool_label: Option<String>,
    /// Days of history to replay.
    #[arg(long, env = "HEADROOM_DAYS", value_name = "DAYS", default_value_t = 7, value_parser = RangedU64ValueParser::<u64>::new().range(2..=365))]
    pub(crate) days: u64,
    /// End of the history, in seconds since 1970 [default: now].
    #[arg(long, env = "HEADROOM_UNTIL", value_name = "SECONDS")]
    pub(crate) until: Option<u64>,
    /// Seconds between two samples of a node: at least the server's scrape interval; must divide 300.
    #[arg(long, env = "HEADROOM_STEP_SECONDS", value_name = "SECONDS", default_value_t = 60, value_parser = step)]
    pub(crate) step_seconds: u64,
    /// Directory in which to save the responses, for --from.
    #[arg(long, env = "HEADROOM_SAVE", value_name = "DIR", conflicts_with = "from")]
    pub(crate) save: Option<PathBuf>,
    /// Also write a page with plots to this file; it needs no other files.
    #[arg(long, env = "HEADROOM_HTML", value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Highest share of capacity for predicted use, in percent.
    #[arg(long, env = "HEADROOM_THETA", value_name = "PERCENT", default_value_t = 90, value_parser = RangedU64ValueParser::<u32>::new().range(10..=100))]
    pub(crate) theta: u32,
    /// Lowest ratio; below 1.00, nodes may get less than raw allocatable.
    #[arg(long, env = "HEADROOM_LO", value_name = "RATIO", default_value = "1.00", value_parser = lowest)]
    pub(crate) lo: Cents,
    /// Highest ratio of CPU.
    #[arg(long, env = "HEADROOM_HI", value_name = "RATIO", default_value = "2.00", value_parser = highest)]
    pub(crate) hi: Cents,
    /// Highest ratio of memory; 1.00 leaves memory unchanged.
    #[arg(long, env = "HEADROOM_HI_MEMORY", value_name = "RATIO", default_value = "1.00", value_parser = highest)]
    pub(crate) hi_memory: Cents,
}

impl AdviseArgs {
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.days * 86_400)
    }
}

/// A Service in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    namespace: String,
    name: String,
    /// Number or name; `None` for the Service's port without a name.
    port: Option<String>,
}

/// The text is not `NAMESPACE/SERVICE[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not NAMESPACE/SERVICE or NAMESPACE/SERVICE:PORT, such as monitoring/prometheus:9090")]
pub(crate) struct ServiceError;

impl Service {
    /// Path of the Service's proxy at the API server.
    pub(crate) fn proxy_path(&self) -> String {
        let Self {
            namespace,
            name,
            port,
        } = self;
        let port = port.as_ref().map_or_else(String::new, |port| format!(":{port}"));
        format!("/api/v1/namespaces/{namespace}/services/{name}{port}/proxy")
    }
}

impl FromStr for Service {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let is_label = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        // A name of only digits is a port number, which must be in range.
        let is_port = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            is_label(text) && (!is_number || text.parse::<u16>().is_ok_and(|port| port != 0))
        };
        let (namespace, rest) = text.split_once('/').ok_or(ServiceError)?;
        let (name, port) = rest
            .split_once(':')
            .map_or((rest, None), |(name, port)| (name, Some(port)));
        if is_label(namespace) && is_label(name) && port.is_none_or(is_port) {
            Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                port: port.map(str::to_owned),
            })
        } else {
            Err(ServiceError)
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            port,
        } = self;
        write!(f, "{namespace}/{name}")?;
        port.as_ref().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A user name; basic authentication separates it from the password by a colon.
fn user(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(':') || text.chars().any(char::is_control) {
        return Err("not the name of a user, without a colon".to_owned());
    }
    Ok(text.to_owned())
}

fn step(text: &str) -> Result<u64, String> {
    let step: u64 = text
        .parse()
        .map_err(|_invalid| "not a number of seconds".to_owned())?;
    // A frame is valid with four of five samples; with fewer than five, none may be missing.
    if (5..=FRAME_S).contains(&step) && FRAME_S.is_multiple_of(step) {
        Ok(step)
    } else {
        Err(format!(
            "not a divisor of {FRAME_S} that is at least 5, such as 15, 30 or 60"
        ))
    }
}

fn lowest(text: &str) -> Result<Cents, String> {
    ratio(text, 50..=100, "0.50 to 1.00")
}

fn highest(text: &str) -> Result<Cents, String> {
    ratio(text, 100..=1000, "1.00 to 10.00")
}

/// Parses a ratio with at most two decimals.
fn ratio(text: &str, allowed: std::ops::RangeInclusive<u32>, range: &str) -> Result<Cents, String> {
    let bad = || format!("not a ratio from {range} with at most two decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > 2 || whole.is_empty() || !is_plain(whole) || !is_plain(decimals) {
        return Err(bad());
    }
    let cents: u32 = format!("{whole}{decimals:0<2}")
        .parse()
        .map_err(|_too_large| bad())?;
    if allowed.contains(&cents) {
        Ok(Cents(cents))
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cmd::{Args, Command};

    fn parse(line: &str) -> Result<AdviseArgs, String> {
        let words = ["kubectl-headroom", "advise"].into_iter().chain(line.split(' '));
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Advise(advise) = args.command else {
            panic!("{:?}", args.command);
        };
        Ok(*advise)
    }

    #[test]
    fn the_past_has_exactly_one_source() {
        let args = parse("--prometheus http://127.0.0.1:9090/prom --lo 0.5 --hi 1.25").unwrap();
        assert_eq!(
            (args.lo, args.hi, args.hi_memory),
            (Cents(50), Cents(125), Cents(100))
        );
        assert_eq!(args.length(), Duration::from_secs(7 * 86_400));
        parse("--from saved").unwrap();
        for none_or_two in [
            "--days 3",
            "--from saved --prometheus http://a",
            "--from a --save b",
        ] {
            parse(none_or_two).unwrap_err();
        }
    }

    #[test]
    fn a_service_has_its_path_at_the_api_server() {
        let service = parse("--prometheus-service monitoring/prometheus:9090")
            .unwrap()
            .prometheus_service
            .unwrap();
        assert_eq!(service.to_string(), "monitoring/prometheus:9090");
        assert_eq!(
            service.proxy_path(),
            "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
        );
        for (text, path) in [
            ("a/b:web", "/api/v1/namespaces/a/services/b:web/proxy"),
            ("a/b", "/api/v1/namespaces/a/services/b/proxy"),
        ] {
            let service: Service = text.parse().unwrap();
            assert_eq!(
                (service.to_string(), service.proxy_path()),
                (text.to_owned(), path.to_owned())
            );
        }
        for bad in [
            "a",
            "a/",
            "/b",
            "/b:1",
            "a/:1",
            "a/b:",
            "a/b:0",
            "a/b:65536",
            "a/b:c:1",
            "a/b/c:1",
            "a/B:1",
            "a/b:%2f",
        ] {
            assert_eq!(bad.parse::<Service>(), Err(ServiceError), "{bad}");
        }
    }

    #[test]
    fn an_out_of_range_value_is_named_with_its_flag() {
        for (flag, value) in [
            ("--lo", "0.49"),
            ("--lo", "1.01"),
            ("--hi", "0.99"),
            ("--hi", "1.255"),
            ("--hi", "two"),
            ("--hi-memory", "-1"),
            ("--theta", "9"),
            ("--theta", "101"),
            ("--days", "1"),
            ("--step-seconds", "7"),
            ("--step-seconds", "600"),
            ("--prometheus", "localhost:9090"),
            ("--prometheus", "ftp://a"),
            ("--query", "node-gpu=up"),
        ] {
            let source = if flag == "--prometheus" { "" } else { "--from x " };
            let error = parse(&format!("{source}{flag}={value}")).unwrap_err();
            assert!(error.contains(flag) && error.contains(value), "{error}");
        }
    }
}
