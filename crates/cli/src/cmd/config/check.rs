//! `config check FILE`: prints the webhook's answer to a version of the ConfigMap.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use headroom_domain::installation::ConfigMapName;
use headroom_rules::{
    SWITCHES,
    slo::Settings,
    switch::{Compat, Switches},
};

use super::{super::Session, source::SloSource};
use crate::{
    args::{ConnectArgs, Format},
    error::Error,
    output::slo::Verdict,
    slo::{SloError, check::VersionCheck, manifest::Manifest, stored_config::StoredConfig},
};

/// Only this text requires names; any other does not, as with the webhook's flag.
const ASKS: &str = "true";

/// Check a version as the webhook would: accepted or refused, with all errors and warnings.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Without --online no request is sent: entries that select the same node are only found among --nodes, and keys that are
unchanged since --old are not checked.

Exit codes: 0 accepted, 1 refused, 2 undecided or wrong usage.

Examples:
  kubectl headroom config check slo-controller-config.yaml
  kubectl get nodes -o json > nodes.json
  kubectl headroom config check new.yaml --old stored.yaml --nodes nodes.json
  kubectl kustomize . | kubectl headroom config check - --online -o json | jq -r .errors[].field")]
pub(super) struct CheckArgs {
    /// File with the version; - is standard input.
    file: PathBuf,
    /// File with the version that it replaces [default: none, or the stored version with --online].
    #[arg(long, env = "HEADROOM_OLD", value_name = "FILE")]
    old: Option<PathBuf>,
    /// File with the cluster's nodes [default: none, or the webhook's nodes with --online].
    #[arg(long, env = "HEADROOM_NODES", value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Ask the webhook for the stored version, the nodes and its settings.
    #[arg(long, env = "HEADROOM_ONLINE")]
    online: bool,
    /// Require a name for each entry: true; any other value means no [default: false, or the webhook's setting with
    /// --online].
    #[arg(
        long,
        env = "HEADROOM_NODE_STRATEGY_NAME_NEED_CHECK",
        value_name = "TEXT",
        visible_alias = "need-check"
    )]
    node_strategy_name_need_check: Option<String>,
    /// Behaviour to apply: headroom or upstream [default: headroom, or the webhook's setting with --online].
    #[arg(long, env = "HEADROOM_COMPAT", value_name = "WHOSE")]
    compat: Option<Compat>,
    /// Set single deviations from Koordinator, such as A=true,B=false; true is Headroom's behaviour.
    #[arg(
        long,
        env = "HEADROOM_SWITCHES",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    switches: String,
}

impl CheckArgs {
    pub(super) async fn run<W: Write>(
        self,
        config_map: &ConfigMapName,
        session: Session<'_, W>,
    ) -> Result<(), Error> {
        let Session {
            connect,
            format,
            screen,
            ..
        } = session;
        let undecided = |error| Error::Undecided(Box::new(error));
        let verdict = self.verdict(config_map, &connect).await.map_err(undecided)?;
        let text = match format {
            Format::Table => verdict.to_string(),
            Format::Json => format!("{:#}\n", verdict.json()),
        };
        let printed = screen.print(&text);
        // An error while printing must not hide that the version is refused.
        if verdict.report.refusal.is_some() {
            return Err(Error::VersionRefused {
                config_map: config_map.clone(),
            });
        }
        // If the verdict was not printed, the exit code must not mean accepted, except if the reader closed the pipe.
        printed.map_err(|error| {
            if error.is_io(io::ErrorKind::BrokenPipe) {
                error
            } else {
                undecided(error)
            }
        })
    }

    async fn verdict(&self, config_map: &ConfigMapName, connect: &ConnectArgs) -> Result<Verdict, Error> {
        let new = Manifest::read(&self.file)?.config_map(config_map)?;
        let mut source = SloSource::new(connect, config_map);
        let stored = if self.online {
            Some(source.stored().await?)
        } else {
            None
        };
        let old = match &self.old {
            Some(file) => Some(Manifest::read(file)?.config_map(config_map)?),
            None => stored.as_ref().and_then(|stored| stored.data.clone()),
        };
        let nodes = match (&self.nodes, self.online) {
            (None, false) => None,
            (file, _) => Some(source.nodes(file.as_deref()).await?),
        };
        let (settings, switches) = self.rules(stored.as_ref())?;
        let check = VersionCheck {
            config_map,
            new: &new,
            old: old.as_ref(),
            settings,
            switches: &switches,
            nodes: nodes.as_ref(),
        };
        Ok(Verdict {
            config_map: config_map.clone(),
            report: check.report(),
            nodes: nodes.map(|nodes| nodes.len()),
            has_old: old.is_some(),
        })
    }

    /// Settings by flag, or else as the webhook has them.
    fn rules(&self, stored: Option<&StoredConfig>) -> Result<(Settings, Switches), SloError> {
        let needs_names = match &self.node_strategy_name_need_check {
            Some(text) => text == ASKS,
            None => stored.is_some_and(|stored| stored.needs_names),
        };
        let of_webhook = stored.filter(|_| self.compat.is_none());
        let preset = || Switches::preset(SWITCHES, self.compat.unwrap_or_default());
        let switches = of_webhook.map_or_else(preset, |stored| stored.switches.clone());
        Ok((Settings { needs_names }, switches.with(&self.switches)?))
    }
}
