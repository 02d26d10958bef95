from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0030_composite_pod_groups'),
    ]

    operations = [
        migrations.AddField(
            model_name='backend',
            name='composites_tried',
            field=models.JSONField(db_default={}, default=dict, editable=False, help_text='The last trial of composite pod groups.'),
        ),
    ]
