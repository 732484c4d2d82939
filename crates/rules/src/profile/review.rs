//! Decides for each profile whether it applies to a new object, and applies the matching ones in the order of their
//! names, each completely or not at all.
//!
//! All profiles are matched with the original object, so the writes of one profile cannot make another match.

use std::{collections::BTreeMap, fmt, sync::Arc};

use headroom_domain::{
    field::{self, Path},
    selector::Labels,
};

use super::{
    ClassLookup, FAILURES_SKIP, KnownProfile, Profile, ProfileMatch, ProfileTarget, TranslationDecision,
    draw, error::with_causes, planned::PlannedProfile, warnings::ProfileWarnings,
};
use crate::{
    explain::VerdictKind,
    merge,
    pod_object::{FaultKind, PlainPod, PodObject},
    switch::Switches,
};

/// Maximum number of values that profiles may write into one object before a too large object is their fault.
const MOST_VALUES_OF_PROFILES: usize = 4_096;

/// All profiles of the cluster, by name.
pub type ProfileList = BTreeMap<Box<str>, Arc<KnownProfile>>;

/// Object that is being created, before any change.
#[derive(Debug)]
pub struct CreatedObject<'a> {
    /// Kind of the object: Pod or Reservation.
    pub target: ProfileTarget,
    /// UID of its review, from which the draws are derived; without a UID every profile is drawn.
    pub review: Option<&'a str>,
    /// Namespace of the object; empty for Reservations.
    pub namespace: &'a str,
    /// Labels of the object before any change.
    pub labels: Labels,
    /// Labels of its namespace; `None` if the namespace is not known, and for Reservations.
    pub namespace_labels: Option<Arc<Labels>>,
}

/// Profiles, classes and switches for applying profiles.
#[derive(Clone, Copy)]
pub struct ProfileRules<'a> {
    /// All profiles of the cluster, sorted by name.
    pub profiles: &'a ProfileList,
    /// Returns a PriorityClass by its name.
    pub class: ClassLookup<'a>,
    /// Switches that are in force.
    pub switches: &'a Switches,
}

/// Result of all profiles for one object.
#[derive(Debug, Default)]
pub struct ProfileReview<'p> {
    /// Decision about the translation of cpu and memory.
    pub translation: TranslationDecision,
    /// Results of profiles that match or may match, by name.
    pub results: Vec<(&'p str, ProfileResult)>,
}

/// Result of one profile for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileResult {
    /// The profile was applied to the object.
    Applied,
    /// The profile does not match.
    NotMatched(ProfileMatch),
    /// The draw skipped this object, according to the probability.
    LeftOut,
    /// It is unknown whether the profile matches; it is not applied, and never blocks the object.
    Unknown(String),
    /// The profile cannot be applied.
    Failed(String),
}

/// Reasons why profiles end the creation of an object.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileStop {
    /// A profile cannot be applied to any object, and blocks those that it matches.
    #[error(transparent)]
    Profile(BlockingProfile),
    /// A field of the object is the reason why a profile cannot be applied to it: the author of the object must not be
    /// able to shake off the profile.
    #[error(transparent)]
    Object(field::Error),
}

/// Profile that cannot be applied and blocks the creation of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("colocation profile {profile:?} cannot be applied: {reason}")]
pub struct BlockingProfile {
    /// Name of the profile that cannot be applied.
    pub profile: String,
    /// Reason why it cannot be applied.
    pub reason: String,
}

impl CreatedObject<'_> {
    /// Matches a profile with the object.
    pub fn matches(&self, profile: &Profile, switches: &Switches) -> ProfileMatch {
        match self.target {
            ProfileTarget::Pod => profile.matches(&self.labels, self.namespace_labels.as_deref()),
            ProfileTarget::Reservation => profile.matches_reservation(&self.labels, switches),
        }
    }

    fn draw(&self, profile: &str) -> u8 {
        self.review.map_or(0, |review| draw(review, profile))
    }

    /// Matches a profile with the object if it would be applied to objects that match; `None` if it is not for the
    /// object.
    pub fn would_apply(&self, name: &str, known: &KnownProfile, switches: &Switches) -> Option<ProfileMatch> {
        let profile = known.compiled.as_ref().ok()?;
        let found = self.matches(profile, switches);
        let is_for_it = matches!(found, ProfileMatch::Matches | ProfileMatch::UnknownNamespace)
            && profile.is_drawn(self.draw(name), switches)
            && profile.defect(self.target).is_none();
        is_for_it.then_some(found)
    }

    /// Decides about a profile before it is applied; `Applied` means that it should be applied.
    fn plan(&self, name: &str, known: &KnownProfile, switches: &Switches) -> ProfileResult {
        let profile = match &known.compiled {
            Ok(profile) => profile,
            // An unreadable profile might match any object.
            Err(reason) => return ProfileResult::Unknown(reason.clone()),
        };
        match self.matches(profile, switches) {
            ProfileMatch::Matches => {}
            ProfileMatch::UnknownNamespace => {
                let namespace = self.namespace;
                return ProfileResult::Unknown(format!(
                    "it selects by namespace, but Namespace {namespace:?} is not known to this replica"
                ));
            }
            other @ (ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace) => {
                return ProfileResult::NotMatched(other);
            }
        }
        if !profile.is_drawn(self.draw(name), switches) {
            return ProfileResult::LeftOut;
        }
        match profile.defect(self.target) {
            Some(defect) => ProfileResult::Failed(with_causes(defect)),
            None => ProfileResult::Applied,
        }
    }

    /// Writes the reason of a result, unless the result itself is sufficient.
    fn write_reason(
        &self,
        name: &str,
        known: &KnownProfile,
        result: &ProfileResult,
        text: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let profile = match (&known.compiled, result) {
            (_, ProfileResult::Failed(reason) | ProfileResult::Unknown(reason)) => {
                return text.write_str(reason);
            }
            (Err(_), _) => return Ok(()),
            (Ok(profile), _) => profile,
        };
        let probability = profile.probability;
        match result {
            ProfileResult::NotMatched(found) => {
                profile.write_mismatch(*found, &self.labels, self.namespace_labels.as_deref(), text)
            }
            ProfileResult::LeftOut => write!(
                text,
                "spec.probability is {probability}, and the draw of this review was {} of 0 to 99",
                self.draw(name)
            ),
            ProfileResult::Applied if self.review.is_none() && probability < 100 => write!(
                text,
                "spec.probability is {probability}: some pods like this one are skipped"
            ),
            ProfileResult::Applied | ProfileResult::Unknown(_) | ProfileResult::Failed(_) => Ok(()),
        }
    }
}

impl<'p> ProfileRules<'p> {
    /// Applies the profiles that match a new object.
    ///
    /// # Errors
    /// A profile cannot be applied because of the object; or because of itself, and the switch to skip it is off.
    pub fn review<O: PodObject>(
        self,
        created: &CreatedObject<'_>,
        object: &mut O,
    ) -> Result<ProfileReview<'p>, ProfileStop> {
        let profiles = self.profiles.iter();
        let mut results: Vec<_> = profiles
            .map(|(name, known)| (&**name, &**known, created.plan(name, known, self.switches)))
            .collect();
        self.apply(created.target, &mut results, object)?;
        let (mut review, mut warnings) = (ProfileReview::default(), ProfileWarnings::default());
        for (name, known, result) in results {
            object.explain(|explanation| {
                explanation.note_profile(name, result.verdict(), |text| {
                    created.write_reason(name, known, &result, text)
                });
            });
            match &result {
                ProfileResult::NotMatched(_) => continue,
                ProfileResult::Applied => {
                    review
                        .translation
                        .count(true, known.skip.as_deref(), self.switches);
                    let profile = known.compiled.as_ref();
                    let member = profile
                        .ok()
                        .and_then(|profile| profile.left_out(created.target, self.switches));
                    if let Some(member) = member {
                        warnings.push(|| {
                            format!("colocation profile {name}: its patch may not write {member}, which stays unchanged")
                        });
                    }
                }
                ProfileResult::LeftOut => {
                    review
                        .translation
                        .count(false, known.skip.as_deref(), self.switches);
                }
                ProfileResult::Failed(reason) if !self.switches.is_on(&FAILURES_SKIP) => {
                    let (profile, reason) = (name.to_owned(), reason.clone());
                    return Err(ProfileStop::Profile(BlockingProfile { profile, reason }));
                }
                ProfileResult::Failed(reason) | ProfileResult::Unknown(reason) => {
                    warnings.push(|| format!("colocation profile {name} was not applied: {reason}"));
                }
            }
            review.results.push((name, result));
        }
        warnings.write(created.target, object);
        Ok(review)
    }

    /// Applies the planned profiles. A failure that also occurs with an object without content of its own is the
    /// fault of the profiles, and changes their result.
    ///
    /// # Errors
    /// The object is the reason why a profile cannot be applied.
    fn apply<O: PodObject>(
        self,
        target: ProfileTarget,
        results: &mut [(&str, &KnownProfile, ProfileResult)],
        object: &mut O,
    ) -> Result<(), ProfileStop> {
        let is_planned = |result: &ProfileResult| *result == ProfileResult::Applied;
        let planned = results.iter().filter(|(.., result)| is_planned(result));
        let planned = planned.filter_map(|(name, known, _)| {
            let profile = known.compiled.as_ref().ok()?;
            Some(PlannedProfile::new(
                name,
                profile,
                self.class,
                target,
                self.switches,
            ))
        });
        let planned: Vec<_> = planned.collect();
        if planned.is_empty() {
            return Ok(());
        }
        let done = object.apply_each(&planned);
        if done.iter().all(Result::is_ok) {
            return Ok(());
        }
        let mut blank = PlainPod::new(target.blank());
        let blamed = blank.apply_each(&planned);
        let is_too_large = merge::count_values(&blank.object) > MOST_VALUES_OF_PROFILES;
        let planned = results.iter_mut().filter(|(.., result)| is_planned(result));
        for (((name, _, result), done), blamed) in planned.zip(done).zip(blamed) {
            let Err(fault) = done else { continue };
            let is_of_profiles = match fault.kind {
                FaultKind::Edit => true,
                FaultKind::Size => is_too_large,
                FaultKind::Content => blamed.as_ref() == Err(&fault),
            };
            if !is_of_profiles {
                let detail = format!("colocation profile {name:?} cannot be applied: {}", fault.reason);
                let error = field::Error::forbidden(&Path::new(&fault.field), &detail);
                return Err(ProfileStop::Object(error));
            }
            *result = ProfileResult::Failed(fault.reason);
        }
        Ok(())
    }
}

impl ProfileResult {
    /// Label value of metrics, also used in audit annotations.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotMatched(_) => "other",
            Self::LeftOut => "chance",
            Self::Unknown(_) | Self::Failed(_) => "failed",
        }
    }

    const fn verdict(&self) -> VerdictKind {
        match self {
            Self::Applied => VerdictKind::Applied,
            Self::NotMatched(ProfileMatch::OtherNamespace) => VerdictKind::OtherNamespace,
            Self::NotMatched(_) => VerdictKind::OtherLabels,
            Self::LeftOut => VerdictKind::Chance,
            Self::Unknown(_) | Self::Failed(_) => VerdictKind::Failed,
        }
    }
}
