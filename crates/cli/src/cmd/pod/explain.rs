//! `pod explain NAMESPACE/NAME` and `pod explain -f FILE`: prints the profiles for a pod, and each written field with
//! its cause.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use headroom_rules::{
    SWITCHES,
    switch::{Compat, Switches},
};
use serde_json::Value;

use super::super::Session;
use crate::{
    args::{ConnectArgs, Format},
    connect,
    documents::STANDARD_INPUT,
    error::Error,
    output::{
        Layout,
        pod::{PodPage, pod_json},
    },
    pod::{
        PodError, PodName,
        decided::{AskedReplica, DecidedPod, DecisionOrigin, KeptReviews},
        objects::FileObjects,
        offline,
    },
};

/// Why a pod was changed: matching colocation profiles, each written field with its writer, and refusals.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Each replica keeps its last 1,000 pod reviews in memory, in at most 4 MiB. All replicas are asked. With --addr, each address
behind the name is asked, such as that of the headless service in the cluster.

With -f no request is sent: the rules are those of the webhook with default feature gates, and the probability of a profile
is ignored. The API server fills in defaults before it calls the webhook; a file only has the fields that are written in it.
Files are YAML or JSON as kubectl prints them; `-` is standard input.

Examples:
  kubectl headroom pod explain shop/web-7d9f8-x7k2p
  kubectl headroom pod explain shop/web-0 -o json | jq '.decisions[0].writes'

  # Before it is created
  kubectl get clustercolocationprofiles,priorityclasses,namespaces -o yaml > cluster.yaml
  kubectl headroom pod explain -f pod.yaml --profiles cluster.yaml")]
pub(super) struct ExplainPodArgs {
    /// Pod, as NAMESPACE/NAME.
    #[arg(
        value_name = "NAMESPACE/NAME",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pod: Option<PodName>,
    /// File with pods that are not created yet; - is standard input.
    #[arg(short, long, env = "HEADROOM_FILE", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Files with ClusterColocationProfiles, and the PriorityClasses and Namespaces that they name.
    #[arg(long, env = "HEADROOM_PROFILES", value_name = "FILE", num_args = 1.., value_delimiter = ',', conflicts_with = "pod")]
    profiles: Vec<PathBuf>,
    /// Behaviour to apply with -f: headroom or upstream.
    #[arg(
        long,
        env = "HEADROOM_COMPAT",
        value_name = "WHOSE",
        default_value = "headroom"
    )]
    compat: Compat,
    /// Set single deviations from Koordinator with -f, such as A=true,B=false; true is Headroom's behaviour.
    #[arg(
        long,
        env = "HEADROOM_SWITCHES",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    switches: String,
}

impl ExplainPodArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let decided = match (&self.pod, &self.file) {
            (Some(pod), _) => vec![online(pod, &session.connect).await?],
            (None, Some(file)) => self.offline(file)?,
            (None, None) => Vec::new(),
        };
        session.screen.print(&match session.format {
            Format::Table => {
                let layout = Layout {
                    width: session.screen.width(),
                    ..Layout::default()
                };
                let pages = decided
                    .iter()
                    .map(|decided| PodPage { decided, layout }.to_string());
                pages.collect::<Vec<_>>().join("\n")
            }
            Format::Json => match decided.as_slice() {
                [pod] => format!("{:#}\n", pod_json(pod)),
                pods => format!("{:#}\n", pods.iter().map(pod_json).collect::<Value>()),
            },
        })
    }

    fn offline(&self, file: &Path) -> Result<Vec<DecidedPod>, Error> {
        let switches = Switches::parse(SWITCHES, self.compat, &self.switches).map_err(PodError::from)?;
        let from_input = |file: &&Path| *file == Path::new(STANDARD_INPUT);
        let files = || {
            [file]
                .into_iter()
                .chain(self.profiles.iter().map(PathBuf::as_path))
        };
        if files().filter(from_input).count() > 1 {
            return Err(PodError::StandardInputTwice.into());
        }
        let mut objects = FileObjects::default();
        objects.add(file)?;
        let pods = objects.some_pods(file)?.to_vec();
        for file in &self.profiles {
            objects.add(file)?;
        }
        if objects.profiles.is_empty() {
            return Err(PodError::NoProfiles.into());
        }
        let decided = pods.iter().map(|pod| offline::decide(pod, &objects, &switches));
        Ok(decided.collect())
    }
}

/// Decisions of the replicas; an error if no replica kept one.
async fn online(pod: &PodName, connect: &ConnectArgs) -> Result<DecidedPod, Error> {
    let decided = connect::pod_decisions(connect, pod).await?;
    if !decided.decisions.is_empty() {
        return Ok(decided);
    }
    let kept = match &decided.origin {
        DecisionOrigin::Replicas(replicas) => replicas.iter().map(kept).collect::<Vec<_>>().join(", "),
        DecisionOrigin::Files { .. } => String::new(),
    };
    Err(PodError::NotKept {
        pod: decided.pod,
        kept,
    }
    .into())
}

fn kept(AskedReplica { addr, kept }: &AskedReplica) -> String {
    match kept {
        Ok(KeptReviews { replica, count, .. }) => format!("replica {replica} keeps {count}"),
        Err(reason) => format!("the replica at {addr} did not answer ({reason})"),
    }
}
