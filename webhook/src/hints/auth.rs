//! Who is at the other end of a stream: an agent by its token or client certificate, and for which node.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use headroom_domain::names;
use headroom_kit::serve::Peer;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tonic::metadata::MetadataMap;
use x509_parser::parse_x509_certificate;

use super::{
    StreamError,
    metrics::TOKEN_REVIEWS,
    review::{Reviewer, User},
};

/// How long the result of a review counts.
const LIFETIME: Duration = Duration::from_secs(60);
/// Reviews in flight at once: when a whole fleet reconnects, the API server is asked no faster than this allows.
const REVIEWS: usize = 32;
/// Results kept: a fleet of 20,000 with its old and new tokens.
const MOST_CACHED: usize = 40_000;
/// Longest token that is looked at; Kubernetes' own are about 1 KiB.
const LONGEST_TOKEN: usize = 16 << 10;
/// Key in a TokenReview's `extra` with the UID of the pod that the token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// What a client shows.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token.
    Token(String),
    /// A client certificate that the TLS handshake verified, and its intermediates.
    Certificate(Arc<[CertificateDer<'static>]>),
}

/// An agent and the node it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The node's name.
    pub node: String,
    /// UID of the agent's pod, where its token names one.
    pub pod_uid: Option<String>,
    /// When its credential ends, if that can be told.
    pub expires: Option<SystemTime>,
}

/// Checks credentials; remembers good tokens for a short time.
pub struct Authenticator {
    reviewer: Arc<dyn Reviewer>,
    permits: Semaphore,
    cache: Mutex<HashMap<[u8; 32], Cached>>,
}

#[derive(Debug, Clone)]
struct Cached {
    agent: Agent,
    until: Instant,
}

#[derive(Deserialize)]
struct Claims {
    exp: Option<u64>,
}

impl Credential {
    /// What came with a request; a token comes before a certificate.
    ///
    /// # Errors
    /// Neither came.
    pub fn of(metadata: &MetadataMap, peer: Option<&Peer>) -> Result<Self, StreamError> {
        let header = metadata
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let token = header
            .and_then(|header| header.split_once(' '))
            .filter(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST_TOKEN).contains(&token.len())
            });
        match (token, peer.and_then(|peer| peer.certificates.as_ref())) {
            (Some((_, token)), _) => Ok(Self::Token(token.to_owned())),
            (None, Some(chain)) => Ok(Self::Certificate(Arc::clone(chain))),
            (None, None) => Err(StreamError::NoCredential),
        }
    }
}

impl Authenticator {
    /// Checks with this reviewer.
    pub fn new(reviewer: Arc<dyn Reviewer>) -> Self {
        Self {
            reviewer,
            permits: Semaphore::new(REVIEWS),
            cache: Mutex::default(),
        }
    }

    /// The agent that shows a credential; a token that was good less than a minute ago is not asked about again.
    ///
    /// # Errors
    /// The credential is not an agent's, or cannot be checked.
    pub async fn agent(&self, credential: &Credential) -> Result<Agent, StreamError> {
        let Credential::Token(token) = credential else {
            return self.agent_anew(credential).await;
        };
        let key = key(token);
        let cached = self
            .lock()
            .get(&key)
            .filter(|cached| Instant::now() < cached.until)
            .cloned();
        match cached {
            Some(Cached { agent, until: _ }) => {
                TOKEN_REVIEWS.with(["cached"]).increment(1);
                Ok(agent)
            }
            None => self.agent_anew(credential).await,
        }
    }

    /// As [`Self::agent`], but asks in any case.
    ///
    /// # Errors
    /// As for [`Self::agent`].
    pub async fn agent_anew(&self, credential: &Credential) -> Result<Agent, StreamError> {
        let token = match credential {
            Credential::Certificate(chain) => return certified(chain, SystemTime::now()),
            Credential::Token(token) => token,
        };
        let key = key(token);
        // Whatever comes of it, the old result has had its time.
        self.lock().remove(&key);
        let user = self.user(token, Some(names::TOKEN_AUDIENCE)).await?;
        let (agent, now) = (agent(user, expiry(token))?, SystemTime::now());
        let left = match agent.expires {
            None => LIFETIME,
            Some(expires) => expires
                .duration_since(now)
                .map_err(|_past| StreamError::Expired)?
                .min(LIFETIME),
        };
        let mut cache = self.lock();
        if cache.len() >= MOST_CACHED {
            let now = Instant::now();
            cache.retain(|_, cached| now < cached.until);
        }
        if cache.len() < MOST_CACHED {
            cache.insert(
                key,
                Cached {
                    agent: agent.clone(),
                    until: Instant::now() + left,
                },
            );
        }
        Ok(agent)
    }

    /// Lets those pass who may look at everything.
    ///
    /// # Errors
    /// No token, a bad one, one of somebody who may not look, or it cannot be checked.
    pub async fn may_debug(&self, credential: &Credential) -> Result<(), StreamError> {
        let Credential::Token(token) = credential else {
            return Err(StreamError::NoCredential);
        };
        let user = self.user(token, None).await?;
        let is_allowed = self
            .reviewer
            .may_get(&user, names::DEBUG_URL)
            .await
            .map_err(StreamError::Unchecked)?;
        if is_allowed {
            Ok(())
        } else {
            Err(StreamError::Forbidden {
                user: user.name,
                url: names::DEBUG_URL,
            })
        }
    }

    async fn user(&self, token: &str, audience: Option<&str>) -> Result<User, StreamError> {
        // The semaphore is never closed; if it were, reviews would only lose their limit.
        let _permit = self.permits.acquire().await;
        let reviewed = self.reviewer.user(token, audience).await;
        let result = match &reviewed {
            Ok(Some(_)) => "good",
            Ok(None) => "bad",
            Err(_) => "failed",
        };
        TOKEN_REVIEWS.with([result]).increment(1);
        reviewed
            .map_err(StreamError::Unchecked)?
            .ok_or(StreamError::BadToken)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Cached>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The agent that a user is.
fn agent(user: User, expires: Option<SystemTime>) -> Result<Agent, StreamError> {
    let User {
        name,
        uid: _,
        groups: _,
        mut extra,
    } = user;
    let account = name
        .strip_prefix("system:serviceaccount:")
        .and_then(|account| account.split_once(':'));
    if account != Some((names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT)) {
        return Err(StreamError::NotAnAgent { user: name });
    }
    let mut only = |key| {
        extra
            .remove(key)
            .and_then(|values| <[String; 1]>::try_from(values).ok())
    };
    let Some([node]) = only(names::TOKEN_NODE_NAME) else {
        return Err(StreamError::NotBound { user: name });
    };
    let pod_uid = only(POD_UID).map(|[uid]| uid);
    Ok(Agent {
        node,
        pod_uid,
        expires,
    })
}

/// When a token ends, read from its claims; the API server has verified them, or will.
fn expiry(token: &str) -> Option<SystemTime> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(exp?))
}

/// The agent that a verified client certificate names.
fn certified(chain: &[CertificateDer<'_>], now: SystemTime) -> Result<Agent, StreamError> {
    let parsed = chain.first().and_then(|leaf| parse_x509_certificate(leaf).ok());
    let (_, certificate) = parsed.ok_or(StreamError::NoCredential)?;
    let subject = certificate.subject();
    let mut organisations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let mut common_names = subject.iter_common_name().filter_map(|name| name.as_str().ok());
    let name = common_names.next().unwrap_or_default();
    let node = name
        .strip_prefix(names::AGENT_CERTIFICATE_PREFIX)
        .filter(|node| !node.is_empty());
    let is_agent = organisations.any(|name| name == names::AGENT_CERTIFICATE_ORGANISATION);
    let node = node.filter(|_| is_agent && common_names.next().is_none());
    let Some(node) = node else {
        return Err(StreamError::NotAnAgent {
            user: format!("{name:?}"),
        });
    };
    let end = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default();
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
    // The handshake checked it too, but a stream may be older than that.
    if expires <= now {
        return Err(StreamError::Expired);
    }
    Ok(Agent {
        node: node.to_owned(),
        pod_uid: None,
        expires: Some(expires),
    })
}

#[cfg(test)]
pub(crate) mod tests;
