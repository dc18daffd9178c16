"""What the personal assistant works on: notes, calendar, mail, files, a weather service and sample data."""
