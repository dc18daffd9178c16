from hypothesis import HealthCheck, settings

# A machine that is busy with something else is no fault of the code. All else stays as Hypothesis chose it:
# reproducible examples where CI is set, and new ones elsewhere.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
