//! `advise`: prints the ratios that Headroom would have set in the past, before the installation.

mod args;
mod private_values;
mod server;

use std::{
    fs,
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use headroom_domain::{policy::Bounds, resource::PerResource};

pub(crate) use self::args::AdviseArgs;
use super::Session;
use crate::{
    advise::{self, Policy, ReplayRequest, span::Span},
    args::Format,
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
        let source = server::source(&session.connect, &self).await?;
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
