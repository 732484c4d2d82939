//! Asks each replica of the webhook for its version.

use headroom_kit::log::chain;
use headroom_proto::ReplicaVersion;

use super::{Credentials, Route, evidence};
use crate::{args::ConnectArgs, error::Error};

/// Version of one replica, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedVersion {
    Known(ReplicaVersion),
    /// The replica answers, but is older than this request.
    Older {
        addr: String,
    },
    Failed {
        addr: String,
        reason: String,
    },
}

/// Versions of the replicas behind the address.
///
/// # Errors
/// No replica is reachable, or none answers.
pub async fn versions(args: &ConnectArgs) -> Result<Vec<AskedVersion>, Error> {
    let credentials = Credentials::new(args).await?;
    let (mut asked, mut failure) = (Vec::new(), None);
    for route in Route::to_each(args, &credentials).await? {
        let addr = route.to_string();
        asked.push(match ask(&route, &credentials).await {
            Ok(Some(version)) => AskedVersion::Known(version),
            Ok(None) => AskedVersion::Older { addr },
            Err(error) => {
                let reason = chain(&error).to_string();
                failure.get_or_insert(error);
                AskedVersion::Failed { addr, reason }
            }
        });
    }
    let has_none = asked
        .iter()
        .all(|version| matches!(version, AskedVersion::Failed { .. }));
    match failure.filter(|_| has_none) {
        Some(error) => Err(error),
        None => Ok(asked),
    }
}

async fn ask(route: &Route, credentials: &Credentials) -> Result<Option<ReplicaVersion>, Error> {
    let answer = evidence::ask(route, credentials).await?;
    let version = answer.map(ReplicaVersion::try_from).transpose();
    version.map_err(Error::VersionAnswer)
}
