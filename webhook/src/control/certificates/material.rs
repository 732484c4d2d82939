//! [`Material`]: content of the Secret with certificates, as read from the API server and written to it.

use std::collections::BTreeMap;

use headroom_domain::names;
use headroom_kit::tls::PemPair;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};

/// Key of the CAs that clients should trust, as in Secrets of cert-manager.
const BUNDLE: &str = "ca.crt";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
/// The CA that issues certificates.
const ISSUER: &str = "issuer.crt";
const ISSUER_KEY: &str = "issuer.key";
/// The CA that issues certificates from the next step on.
const NEXT: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
/// The issuer's certificate by the previous CA.
const CROSS: &str = "cross.crt";
/// The previous CA.
const OLD: &str = "old.crt";

/// Other names of keys, in Secrets of Koordinator.
const KOORDINATOR_KEYS: [(&str, &str); 3] = [(BUNDLE, "ca-cert.pem"), (CHAIN, "cert.pem"), (KEY, "key.pem")];

/// Annotations with the state of a rotation.
const STATE: &str = "headroom.sh/rotation-state";
const SINCE: &str = "headroom.sh/rotation-since";
const REASON: &str = "headroom.sh/rotation-reason";
/// Annotation by which an administrator demands a rotation; its value is the reason.
pub(super) const DEMAND: &str = "headroom.sh/rotate";
/// Longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 256;

/// State of the rotation of the CA. Each step is one write of the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationState {
    /// Clients should trust one CA, which has issued the certificate.
    Stable,
    /// Clients should also trust the next CA.
    NextPublished,
    /// The next CA has issued the certificate, and the previous CA vouches for it.
    NewLeaf,
    /// Clients should no longer trust the previous CA.
    OldRetired,
}

/// All states, in their order.
pub(super) const STATES: [RotationState; 4] = [
    RotationState::Stable,
    RotationState::NextPublished,
    RotationState::NewLeaf,
    RotationState::OldRetired,
];

/// Position in a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub state: RotationState,
    /// Begin of the state, in seconds since the Unix epoch.
    pub since_s: i64,
    /// Reason for the last step, for users.
    pub reason: String,
}

/// Content of a Secret that Headroom manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The CA that issues certificates.
    pub(super) issuer: PemPair,
    /// The serving certificate, followed by the cross certificate if there is one.
    pub(super) serving: PemPair,
    pub(super) next: Option<PemPair>,
    pub(super) cross: Option<String>,
    /// The previous CA.
    pub(super) old: Option<String>,
    pub(super) progress: Progress,
}

/// Parts of a Secret of any writer that clients and servers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) serving: PemPair,
    /// CAs that clients should trust, in PEM.
    pub(super) bundle: String,
}

/// Why a Secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SecretError {
    #[error("the Secret has no key {key}")]
    Missing { key: &'static str },
    #[error("key {key} of the Secret is not text")]
    Binary { key: &'static str },
    #[error("the Secret has no annotation {annotation}")]
    NoAnnotation { annotation: &'static str },
    #[error("annotation {annotation} of the Secret is {value:?}")]
    Annotation { annotation: &'static str, value: String },
}

impl RotationState {
    /// Name in the Secret's annotation, in metrics and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::NextPublished => "next-published",
            Self::NewLeaf => "new-leaf",
            Self::OldRetired => "old-retired",
        }
    }
}

impl Material {
    /// CAs that clients should trust, the issuer of new certificates last.
    pub(super) fn bundle(&self) -> String {
        let issuer = self.issuer.cert.as_str();
        match self.progress.state {
            RotationState::Stable | RotationState::OldRetired => issuer.to_owned(),
            RotationState::NextPublished => {
                [issuer, self.next.as_ref().map_or("", |next| next.cert.as_str())].concat()
            }
            RotationState::NewLeaf => [self.old.as_deref().unwrap_or_default(), issuer].concat(),
        }
    }

    /// Reads a Secret that has our label.
    ///
    /// # Errors
    /// A key is missing, or an annotation has an unknown value.
    pub(super) fn read(secret: &Secret) -> Result<Self, SecretError> {
        let known =
            |key: &'static str| annotation(secret, key).ok_or(SecretError::NoAnnotation { annotation: key });
        let (state, since) = (known(STATE)?, known(SINCE)?);
        let unknown = |annotation: &'static str, value: &str| SecretError::Annotation {
            annotation,
            value: shortened(value),
        };
        let found = STATES.into_iter().find(|known| known.name() == state);
        let state = found.ok_or_else(|| unknown(STATE, state))?;
        let since_s = since
            .parse::<Timestamp>()
            .map_err(|_invalid| unknown(SINCE, since))?
            .as_second();
        let is_between = matches!(state, RotationState::NewLeaf | RotationState::OldRetired);
        let next = (state == RotationState::NextPublished).then(|| pair(secret, NEXT, NEXT_KEY));
        let old = (state == RotationState::NewLeaf).then(|| text(secret, OLD));
        let cross = is_between.then(|| text(secret, CROSS));
        Ok(Self {
            issuer: pair(secret, ISSUER, ISSUER_KEY)?,
            serving: pair(secret, CHAIN, KEY)?,
            next: next.transpose()?,
            cross: cross.transpose()?,
            old: old.transpose()?,
            progress: Progress {
                state,
                since_s,
                reason: annotation(secret, REASON).unwrap_or_default().to_owned(),
            },
        })
    }

    /// The Secret with this content. Without `before`, it is a new one; otherwise its name, version, type, labels and
    /// other annotations stay. The first step of a rotation removes the demand for it.
    pub(super) fn write(&self, before: Option<Secret>, namespace: &str, name: &str) -> Secret {
        let mut secret = before.unwrap_or_else(|| Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(BTreeMap::from(
                    [
                        (names::CERTIFICATES_LABEL, names::MANAGED_CERTIFICATES),
                        ("app.kubernetes.io/part-of", "headroom"),
                    ]
                    .map(|(key, value)| (key.to_owned(), value.to_owned())),
                )),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        });
        let Progress {
            state,
            since_s,
            reason,
        } = &self.progress;
        let annotations = secret.metadata.annotations.get_or_insert_default();
        // Only the first step of a rotation acts on it: a demand during a rotation begins the next one.
        if *state == RotationState::NextPublished {
            annotations.remove(DEMAND);
        }
        annotations.insert(STATE.to_owned(), state.name().to_owned());
        let since = Timestamp::from_second(*since_s).unwrap_or_default();
        annotations.insert(SINCE.to_owned(), since.to_string());
        annotations.insert(REASON.to_owned(), shortened(reason));
        let (bundle, next) = (self.bundle(), self.next.as_ref());
        let keys = [
            (BUNDLE, Some(bundle.as_str())),
            (CHAIN, Some(self.serving.cert.as_str())),
            (KEY, Some(self.serving.key.as_str())),
            (ISSUER, Some(self.issuer.cert.as_str())),
            (ISSUER_KEY, Some(self.issuer.key.as_str())),
            (NEXT, next.map(|pair| pair.cert.as_str())),
            (NEXT_KEY, next.map(|pair| pair.key.as_str())),
            (CROSS, self.cross.as_deref()),
            (OLD, self.old.as_deref()),
        ];
        let data = secret.data.get_or_insert_default();
        for (key, text) in keys {
            match text {
                Some(text) => data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec())),
                None => data.remove(key),
            };
        }
        secret
    }

    /// True if the Secret contains the bundle of this content.
    pub(super) fn has_bundle(&self, secret: &Secret) -> bool {
        text(secret, BUNDLE).is_ok_and(|stored| stored == self.bundle())
    }

    /// Parts that clients and servers use.
    pub(super) fn usable(&self) -> Usable {
        Usable {
            serving: self.serving.clone(),
            bundle: self.bundle(),
        }
    }
}

impl Usable {
    /// Reads a Secret of another writer: of cert-manager, of Koordinator or of an administrator.
    ///
    /// # Errors
    /// A key is missing.
    pub(super) fn read(secret: &Secret) -> Result<Self, SecretError> {
        Ok(Self {
            serving: pair(secret, CHAIN, KEY)?,
            bundle: text(secret, BUNDLE)?,
        })
    }
}

/// True if the Secret has our label: then the leader writes it.
pub(super) fn is_managed(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(names::CERTIFICATES_LABEL));
    label.is_some_and(|value| value == names::MANAGED_CERTIFICATES)
}

/// Reason of an administrator who demands a rotation.
pub(super) fn demand(secret: &Secret) -> Option<String> {
    let demanded = annotation(secret, DEMAND)?;
    Some(shortened(demanded))
}

fn annotation<'a>(secret: &'a Secret, key: &'static str) -> Option<&'a str> {
    let annotations = secret.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

fn pair(secret: &Secret, cert: &'static str, key: &'static str) -> Result<PemPair, SecretError> {
    Ok(PemPair {
        cert: text(secret, cert)?,
        key: text(secret, key)?,
    })
}

/// Text of a key, under its own name or under that of Koordinator.
fn text(secret: &Secret, key: &'static str) -> Result<String, SecretError> {
    let other = KOORDINATOR_KEYS.iter().find(|(ours, _)| *ours == key);
    let data = secret.data.as_ref();
    let value = data.and_then(|data| {
        let named = data.get(key).filter(|value| !value.0.is_empty());
        named.or_else(|| data.get(other?.1))
    });
    let ByteString(bytes) = value.ok_or(SecretError::Missing { key })?;
    String::from_utf8(bytes.clone()).map_err(|_binary| SecretError::Binary { key })
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_REASON);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pem(name: &str) -> PemPair {
        PemPair {
            cert: format!("{name}.crt;"),
            key: format!("{name}.key;"),
        }
    }

    fn material(state: RotationState) -> Material {
        let is_between = matches!(state, RotationState::NewLeaf | RotationState::OldRetired);
        Material {
            issuer: pem("issuer"),
            serving: pem("serving"),
            next: (state == RotationState::NextPublished).then(|| pem("next")),
            cross: is_between.then(|| "cross".to_owned()),
            old: (state == RotationState::NewLeaf).then(|| "old.crt;".to_owned()),
            progress: Progress {
                state,
                since_s: 1_800_000_000,
                reason: "a test".to_owned(),
            },
        }
    }

    #[rstest]
    #[case(RotationState::Stable, "issuer.crt;")]
    #[case(RotationState::NextPublished, "issuer.crt;next.crt;")]
    #[case(RotationState::NewLeaf, "old.crt;issuer.crt;")]
    #[case(RotationState::OldRetired, "issuer.crt;")]
    fn each_state_is_read_as_it_was_written(#[case] state: RotationState, #[case] bundle: &str) {
        let written = material(state).write(None, "ns", "s");
        assert!(is_managed(&written));
        assert_eq!(Material::read(&written).unwrap(), material(state));
        let usable = Usable::read(&written).unwrap();
        assert_eq!(usable, material(state).usable());
        assert_eq!(usable.bundle, bundle);
    }

    #[test]
    fn a_step_keeps_what_others_wrote_and_the_first_removes_the_demand() {
        let mut before = material(RotationState::NextPublished).write(None, "ns", "s");
        before.type_ = Some("Opaque".to_owned());
        before.metadata.resource_version = Some("7".to_owned());
        let annotations = before.metadata.annotations.get_or_insert_default();
        annotations.insert("team".to_owned(), "a".to_owned());
        annotations.insert(DEMAND.to_owned(), "lost key".to_owned());
        assert_eq!(demand(&before).as_deref(), Some("lost key"));
        before
            .data
            .get_or_insert_default()
            .insert("notes".to_owned(), ByteString(b"x".to_vec()));
        let first = material(RotationState::NextPublished).write(Some(before.clone()), "ns", "s");
        assert_eq!(demand(&first), None);
        let after = material(RotationState::NewLeaf).write(Some(before.clone()), "ns", "s");
        assert_eq!(
            (&after.type_, &after.metadata.resource_version),
            (&before.type_, &before.metadata.resource_version)
        );
        assert_eq!(demand(&after), demand(&before), "for the next rotation");
        assert_eq!(after.metadata.annotations.unwrap()["team"], "a");
        let keys: Vec<_> = after.data.unwrap().into_keys().collect();
        assert_eq!(
            keys,
            [
                "ca.crt",
                "cross.crt",
                "issuer.crt",
                "issuer.key",
                "notes",
                "old.crt",
                "tls.crt",
                "tls.key"
            ]
        );
    }

    #[test]
    fn a_secret_of_koordinator_is_read() {
        let keys = ["ca-cert.pem", "ca-key.pem", "cert.pem", "key.pem"];
        let data = keys.map(|key| (key.to_owned(), ByteString(key.as_bytes().to_vec())));
        let secret = Secret {
            data: Some(BTreeMap::from(data)),
            ..Secret::default()
        };
        assert!(!is_managed(&secret));
        let Usable { serving, bundle } = Usable::read(&secret).unwrap();
        assert_eq!(
            [serving.cert.as_str(), serving.key.as_str(), bundle.as_str()],
            ["cert.pem", "key.pem", "ca-cert.pem"]
        );
    }

    #[test]
    fn missing_keys_and_unknown_states_are_errors() {
        let good = material(RotationState::Stable).write(None, "ns", "s");
        for key in ["tls.crt", "tls.key", "issuer.crt", "issuer.key"] {
            let mut half = good.clone();
            half.data.get_or_insert_default().remove(key);
            assert_eq!(Material::read(&half), Err(SecretError::Missing { key }));
        }
        for key in [STATE, SINCE] {
            let mut without = good.clone();
            without.metadata.annotations.get_or_insert_default().remove(key);
            assert_eq!(
                Material::read(&without),
                Err(SecretError::NoAnnotation { annotation: key })
            );
        }
        let mut later = good;
        let annotations = later.metadata.annotations.get_or_insert_default();
        annotations.insert(STATE.to_owned(), "paused".to_owned());
        assert!(matches!(
            Material::read(&later),
            Err(SecretError::Annotation { .. })
        ));
    }
}
