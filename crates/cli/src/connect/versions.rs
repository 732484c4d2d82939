//! Asks each replica of the webhook for its version.

use headroom_kit::log::chain;
use headroom_proto::{
    ReplicaVersion,
    v1alpha1::{GetVersionRequest, debug_client::DebugClient},
};
use tonic::{Code, Request};

use super::{Credentials, LIMIT, Route};
use crate::{args::ConnectArgs, error::Error};

/// What came of asking one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedVersion {
    /// It told.
    Known(ReplicaVersion),
    /// It answers, but is from before versions were told.
    Older {
        /// Where it was asked.
        addr: String,
    },
    /// It did not answer.
    Failed {
        /// Where it was asked.
        addr: String,
        /// Why.
        reason: String,
    },
}

/// The versions of the replicas behind the address.
///
/// # Errors
/// There is no way to any replica, or none answers.
pub async fn versions(args: &ConnectArgs) -> Result<Vec<AskedVersion>, Error> {
    let credentials = Credentials::new(args).await?;
    let (mut asked, mut failure) = (Vec::new(), None);
    for route in Route::to_each(args, &credentials).await? {
        let addr = route.to_string();
        asked.push(match ask(&route, &credentials).await {
            Ok(version) => AskedVersion::Known(version),
            Err(Error::Refused {
                code: Code::Unimplemented,
                ..
            }) => AskedVersion::Older { addr },
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

async fn ask(route: &Route, credentials: &Credentials) -> Result<ReplicaVersion, Error> {
    let channel = route.open(credentials).await?;
    let mut client = DebugClient::with_interceptor(channel, credentials.bearer());
    let mut request = Request::new(GetVersionRequest {});
    request.set_timeout(LIMIT);
    let answer = client.get_version(request).await?.into_inner();
    ReplicaVersion::try_from(answer).map_err(Error::VersionAnswer)
}
