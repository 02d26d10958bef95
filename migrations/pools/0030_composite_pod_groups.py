from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0029_no_split_gangs'),
    ]

    operations = [
        migrations.AddField(
            model_name='backend',
            name='composite_pod_groups',
            field=models.BooleanField(db_default=False, default=False, help_text="Whether somebody vouches that Kubernetes' own scheduler has its gate CompositePodGroup, which no API shows. If not, a trial decides whether it holds sets inside sets."),
        ),
    ]
