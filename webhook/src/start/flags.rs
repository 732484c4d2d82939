//! Command line of the webhook with the help and checks that depend on declared endpoints, and settings made from flags.

use std::ffi::OsString;

use clap::{Command, CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use headroom_kit::gate::{self, GateError, GateSet};
use headroom_rules::{SWITCHES, switch::Switches};

use super::StartError;
use crate::{
    admission::{
        endpoints,
        features::Features,
        shadow::{Shadow, ShadowError},
    },
    args::{Args, CertificateMode},
    control::{projected_ratio::PoolLabel, rates::Rates},
    install::manifest::Address,
    store::floor::MissingFloor,
};

/// The command line, with the gates of all endpoints in its help.
pub fn command() -> Command {
    Args::command()
        .mut_arg("feature_gates", |arg| {
            arg.value_parser(known_gates)
                .long_help(gate::help(endpoints::gates()))
        })
        .mut_arg("shadow", |arg| arg.value_parser(known_steps))
}

/// Reads the command line of this process. Ends the process where it is wrong, or asks for help or the version.
pub fn parse() -> Args {
    let args = Args::from_arg_matches(&command().get_matches());
    args.and_then(consistent).unwrap_or_else(|error| error.exit())
}

/// Reads a command line.
///
/// # Errors
/// An unknown flag, gate or step, or a value out of its range.
pub fn try_parse_from(
    line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Args, clap::Error> {
    Args::from_arg_matches(&command().try_get_matches_from(line)?).and_then(consistent)
}

/// Refuses flags that contradict the source of the certificates.
fn consistent(args: Args) -> Result<Args, clap::Error> {
    let has_files = args.tls.tls_cert_file.is_some() || args.tls.tls_self_signed_dir.is_some();
    let problem = match args.certificates.certificates {
        Some(CertificateMode::Files) if !has_files => {
            "--certificates=files requires --tls-cert-file and --tls-key-file, or --tls-self-signed-dir"
        }
        Some(CertificateMode::Managed | CertificateMode::CertManager) if has_files => {
            "--tls-cert-file and --tls-self-signed-dir are used with --certificates=files only"
        }
        _ if args.certificates.ca_seconds <= args.certificates.certificate_seconds => {
            "--ca-seconds must be greater than --certificate-seconds"
        }
        _ => return Ok(args),
    };
    Err(command().error(ErrorKind::ArgumentConflict, problem))
}

/// The features in force at the start.
pub(super) fn features(args: &Args) -> Result<Features, StartError> {
    Ok(Features {
        gates: gates(&args.feature_gates)?,
        switches: Switches::parse(SWITCHES, args.compat, &args.switches)?,
        shadow: shadow(&args.shadow)?,
    })
}

pub(super) const fn missing_floor(args: &Args) -> MissingFloor {
    if args.accept_no_floor {
        MissingFloor::Accepted
    } else {
        MissingFloor::BlocksRaises
    }
}

/// The address at which the API server calls the webhook.
pub(super) fn address(args: &Args) -> Address {
    args.admission_url.clone().map_or(Address::Service, Address::Url)
}

pub(super) const fn rates(args: &Args) -> Rates {
    Rates {
        lower: args.lower_per_second,
        rise_percent: args.rise_percent_per_second,
        sweep: args.sweep_per_second,
    }
}

pub(super) fn pool_label(args: &Args) -> PoolLabel {
    PoolLabel {
        key: args.pools.pool_label.clone(),
        most: usize::from(args.pools.most_pools),
    }
}

fn gates(text: &str) -> Result<GateSet, GateError> {
    GateSet::parse(endpoints::gates(), text)
}

fn shadow(text: &str) -> Result<Shadow, ShadowError> {
    Shadow::parse(endpoints::step_names(), text)
}

fn known_gates(text: &str) -> Result<String, GateError> {
    gates(text).map(|_gates| text.to_owned())
}

fn known_steps(text: &str) -> Result<String, ShadowError> {
    shadow(text).map(|_shadow| text.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(flags: &str) -> Result<Args, clap::Error> {
        let line = ["headroom-webhook", "--tls-self-signed-dir", "d"];
        try_parse_from(line.into_iter().chain(flags.split_whitespace()))
    }

    #[test]
    fn default_flags_give_the_default_gates_and_rates() {
        command().debug_assert();
        let args = read("").unwrap();
        let features = features(&args).unwrap();
        assert!(features.gates.iter().all(|(gate, is_on)| is_on == gate.default));
        assert_eq!(rates(&args), Rates::DEFAULT);
    }

    #[rstest]
    #[case("", Address::Service, "headroom-webhook.headroom-system.svc")]
    #[case(
        "--namespace b --name-suffix=-c",
        Address::Service,
        "headroom-webhook-c.b.svc"
    )]
    #[case("--admission-url https://h:1/", Address::Url("https://h:1".to_owned()), "h")]
    #[case("--admission-url https://[::1]:1/a", Address::Url("https://[::1]:1/a".to_owned()), "::1")]
    fn the_api_server_calls_the_service_unless_a_url_is_given(
        #[case] flags: &str,
        #[case] expected: Address,
        #[case] host: &str,
    ) {
        let args = read(flags).unwrap();
        let found = address(&args);
        assert_eq!(
            (&found, found.host(&args.installation.get()).as_str()),
            (&expected, host)
        );
    }

    #[rstest]
    #[case(
        "--feature-gates NodeMutatingWebhok=true",
        "invalid value 'NodeMutatingWebhok=true' for '--feature-gates <LIST>': unknown feature gate \"NodeMutatingWebhok\""
    )]
    #[case("--feature-gates NodeMutatingWebhook=on", "is not of the form")]
    #[case("--shadow mood", "there is no step \"mood\"")]
    fn an_unknown_gate_or_step_is_refused(#[case] flags: &str, #[case] reason: &str) {
        let error = read(flags).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
