// SPDX-License-Identifier: ISC

import org.hibernate.dialect.PostgreSQLDialect;
import org.hibernate.dialect.temptable.TemporaryTable;
import org.hibernate.dialect.temptable.TemporaryTableKind;
import org.hibernate.engine.jdbc.dialect.spi.DialectResolutionInfo;
import org.hibernate.metamodel.mapping.EntityMappingType;
import org.hibernate.metamodel.spi.RuntimeModelCreationContext;
import org.hibernate.query.sqm.mutation.internal.temptable.AfterUseAction;
import org.hibernate.query.sqm.mutation.internal.temptable.BeforeUseAction;
import org.hibernate.query.sqm.mutation.internal.temptable.LocalTemporaryTableMutationStrategy;
import org.hibernate.query.sqm.mutation.spi.SqmMultiTableMutationStrategy;

/** Without what Hibernate uses RETURNING for: temporary tables and currval() instead. */
public final class OlderDialect extends PostgreSQLDialect {
	public OlderDialect(DialectResolutionInfo info) {
		super(info);
	}

	@Override
	public boolean supportsInsertReturning() {
		return false;
	}

	@Override
	public boolean supportsInsertReturningGeneratedKeys() {
		return false;
	}

	@Override
	public TemporaryTableKind getSupportedTemporaryTableKind() {
		return TemporaryTableKind.LOCAL;
	}

	@Override
	public String getTemporaryTableCreateCommand() {
		return "create temporary table";
	}

	@Override
	public BeforeUseAction getTemporaryTableBeforeUseAction() {
		return BeforeUseAction.CREATE;
	}

	@Override
	public AfterUseAction getTemporaryTableAfterUseAction() {
		return AfterUseAction.DROP;
	}

	@Override
	public SqmMultiTableMutationStrategy getFallbackSqmMutationStrategy(EntityMappingType root,
			RuntimeModelCreationContext context) {
		return new LocalTemporaryTableMutationStrategy(
			TemporaryTable.createIdTable(root, name -> TemporaryTable.ID_TABLE_PREFIX + name, this,
				context),
			context.getSessionFactory());
	}
}
