//! `kubectl headroom`: requests data from a webhook, an agent or the API server and prints it as text or JSON.
//!
//! ```text
//! args -> connect (port-forward, TLS, token) -> cmd::{top, explain, hints} -> view::Node -> output -> screen
//!      -> connect (kubeconfig) -> cmd::off -> Node objects -----------------------------^
//!      -> connect (kubeconfig) -> uninstall, cmd::off -> cmd::uninstall ------------^
//!      -> connect (Prometheus) or files -> advise -> Advice ------------------------^
//!      -> connect or files -> slo -> cmd::config, by the webhook's rules ---------------^
//!      -> connect to each replica and the API server -> check -> cmd::check ----------------^
//!      -> connect to each replica, or files -> pod -> cmd::pod, by the webhook's rules ------^
//!      -> connect to each replica -> quota -> cmd::quota ------------------------------^
//!      -> connect to each replica -> cmd::version ------------------------------------^
//!      -> agent (unix socket) -> cmd::agent -> messages of the agent -------------------^
//! ```
#![forbid(unsafe_code)]

mod access_review;
pub mod advise;
pub mod agent_client;
pub mod args;
pub mod check;
pub mod completion;
pub mod connect;
pub mod derivation;
pub mod documents;
pub mod error;
pub mod escape;
pub mod human_numbers;
pub mod output;
pub mod pod;
pub mod quota;
pub mod rights;
pub mod screen;
pub mod slo;
pub mod styled_text;
pub mod uninstall;
pub mod view;

mod cause;
mod cmd;
mod mistyped;

use std::io::Write;

use clap::CommandFactory as _;

pub use self::cmd::Args;
use crate::{args::OutputFormat, cmd::Session, error::Error, screen::Screen};

/// Runs one command and prints its output.
///
/// # Errors
/// See [`Error`].
pub async fn run<W: Write>(args: Args, screen: &mut Screen<W>) -> Result<(), Error> {
    let Args {
        connect,
        output,
        json,
        command,
    } = args;
    let output = if json { OutputFormat::Json } else { output };
    if output == OutputFormat::Name && !command.has_names() {
        return Err(Error::NoNames);
    }
    if output == OutputFormat::Yaml {
        screen.print_yaml();
    }
    let session = Session {
        connect,
        format: output.format(),
        output,
        screen,
        cli: Args::command,
    };
    command.run(session).await
}
