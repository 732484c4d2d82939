//! Asks the API server for the user of a token (TokenReview) and for the user's rights (SubjectAccessReview).

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::store::access::{Access, ObjectNames};

/// API access that reviews need.
pub static ACCESS: &[Access] = &[
    Access::to(
        "authentication.k8s.io",
        "tokenreviews",
        ObjectNames::All,
        &["create"],
    ),
    Access::to(
        "authorization.k8s.io",
        "subjectaccessreviews",
        ObjectNames::All,
        &["create"],
    ),
];

/// Timeout of a review.
const LIMIT: Duration = Duration::from_secs(5);

/// User that the API server has authenticated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenUser {
    pub name: String,
    /// UID, empty if there is none.
    pub uid: String,
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Cause of a review without a result.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The API server cannot be asked, or refuses to answer.
    #[error("no answer from the API server")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server did not answer within {LIMIT:?}")]
    Slow,
}

/// Authenticates tokens and authorizes users.
pub trait Reviewer: Send + Sync {
    /// The user of a token, if it is valid for `audience`.
    fn user<'a>(
        &'a self,
        token: &'a str,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Option<TokenUser>, ReviewError>>;

    /// True if a user may `get` a non-resource URL.
    fn may_get<'a>(&'a self, user: &'a TokenUser, url: &'a str) -> BoxFuture<'a, Result<bool, ReviewError>>;
}

/// The API server as reviewer.
#[derive(Clone)]
pub struct TokenReviewClient {
    client: Client,
}

impl TokenReviewClient {
    /// Reviews with this client's rights.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn create<K>(&self, review: K) -> Result<K, ReviewError>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + Send + Sync,
        K: Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams::default();
        let answer = timeout(LIMIT, api.create(&params, &review)).await;
        answer
            .map_err(|_elapsed| ReviewError::Slow)?
            .map_err(|error| ReviewError::Api(Box::new(error)))
    }
}

impl Reviewer for TokenReviewClient {
    fn user<'a>(
        &'a self,
        token: &'a str,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Option<TokenUser>, ReviewError>> {
        let spec = TokenReviewSpec {
            token: token.to_owned(),
            audiences: Some(vec![audience.to_owned()]),
        };
        Box::pin(async move {
            let review = self
                .create(TokenReview {
                    spec,
                    ..TokenReview::default()
                })
                .await?;
            let Some(status) = review.status.filter(|status| status.authenticated == Some(true)) else {
                return Ok(None);
            };
            // A server that knows nothing of audiences leaves them out and vouches for none.
            let audiences = status.audiences.unwrap_or_default();
            let is_for_us = audiences.iter().any(|given| given == audience);
            Ok(status.user.filter(|_| is_for_us).map(TokenUser::from))
        })
    }

    fn may_get<'a>(&'a self, user: &'a TokenUser, url: &'a str) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let TokenUser {
            name,
            uid,
            groups,
            extra,
        } = user.clone();
        let spec = SubjectAccessReviewSpec {
            user: Some(name),
            uid: Some(uid),
            groups: Some(groups),
            extra: Some(extra),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(url.to_owned()),
                verb: Some("get".to_owned()),
            }),
            resource_attributes: None,
        };
        Box::pin(async move {
            let review = self
                .create(SubjectAccessReview {
                    spec,
                    ..SubjectAccessReview::default()
                })
                .await?;
            Ok(review.status.is_some_and(|status| status.allowed))
        })
    }
}

impl From<UserInfo> for TokenUser {
    fn from(user: UserInfo) -> Self {
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = user;
        Self {
            name: username.unwrap_or_default(),
            uid: uid.unwrap_or_default(),
            groups: groups.unwrap_or_default(),
            extra: extra.unwrap_or_default(),
        }
    }
}
